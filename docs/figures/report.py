"""Draw docs/figures/report.png: parts of the page that `make demo` writes, as a browser shows them.

`python docs/figures/report.py runs/demo/report.html`, with selenium, chromium and its driver installed.
"""

import base64
import shutil
import sys
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

# Of the whole page: the answers, the first table and the first chart.
CUT = """
const gone = [...document.querySelectorAll('section')].filter(one =>
  !['Results', 'Learning curves'].includes(one.querySelector('h2').textContent));
const table = [...document.querySelectorAll('h2')].find(one => one.textContent === 'Results').parentElement;
const charts = document.querySelector('#curves');
for (const section of [table, charts]) {
  const second = section.querySelectorAll('h3')[1];
  const top = child => { while (child.parentElement !== section) child = child.parentElement; return child; };
  const children = [...section.children];
  if (second) gone.push(...children.slice(children.indexOf(top(second))));
}
gone.push(...['#legend', 'footer', '.contents', '#results details'].map(one => document.querySelector(one)));
for (const one of gone) one?.remove();
const main = document.querySelector('main');
main.style.padding = '1.5rem';
window.dispatchEvent(new Event('resize'));
setTimeout(() => arguments[0](main.getBoundingClientRect().height), 2000);  // charts are drawn anew until then
"""


def main(page: Path) -> None:
    """Cut the page down, and take its picture."""
    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    size = {"width": 1180, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.resolve().as_uri())
    clip = {"x": 0, "y": 0, "width": 1180, "height": browser.execute_async_script(CUT), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    Path(__file__).with_suffix(".png").write_bytes(base64.b64decode(shot["data"]))
    browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
