"""The report's page in a real browser, with networking off."""

import itertools
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lab.stores import add_comparison, add_run, three_contenders

from adamplus.lab.report import read, rows
from adamplus.lab.report.page import page

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="THE REPORT'S PAGE WAS NOT TESTED: no chromium with chromedriver (apt-get install chromium chromium-driver)",
)
EVIL = '</script><b class="injected">x</b><img class="injected" src="x">'


@pytest.fixture(scope="module")
def browser() -> Iterator["Chrome"]:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))  # without a path, selenium would use the network
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*", "ws://*", "wss://*"]})
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: "Chrome", tmp_path: Path) -> Callable[..., "Chrome"]:
    """Opens the page of the runs in tmp_path, in a window of this width."""

    from selenium.webdriver.support.wait import WebDriverWait

    def go(width: int = 1200, scheme: str = "light") -> "Chrome":
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get_log("browser")  # messages of earlier pages
        browser.get_log("performance")
        results = read(tmp_path)
        path = tmp_path / "report.html"
        path.write_text(page(results, [rows(results, task) for task in results.tasks]), encoding="utf-8")
        address = path.as_uri()
        browser.get(address)
        # chromedriver may return before the browser has read all of the page's scripts
        there = "return document.readyState === 'complete' && location.href === arguments[0]"
        WebDriverWait(browser, 60).until(lambda window: window.execute_script(there, address))
        return browser

    return go


def drawn(browser: "Chrome", section: str) -> list[list[str]]:
    """Names of the contenders whose lines, points or bars each chart of a section shows."""
    return browser.execute_script(
        """
        return [...document.querySelectorAll(`#${arguments[0]} .chart`)].map((box) => box._fullData
          .filter((trace) => /^(line|bar)/.test(trace.uid) && trace.visible === true)
          .filter((trace, i) => box.querySelector(`.trace${trace.uid} path`) ?? box.querySelectorAll(".bars .point")[i])
          .map((trace) => trace.name))
        """,
        section,
    )


def click(browser: "Chrome", selector: str) -> None:
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def messages(browser: "Chrome") -> list[str]:
    """Errors and warnings of the browser."""
    return [entry["message"] for entry in browser.get_log("browser")]  # type: ignore[index]


def test_every_contender_has_its_curve_in_every_chart(opened: Callable[..., Any], tmp_path: Path):
    three_contenders(tmp_path)
    browser = opened()
    contenders = ["adam-plus", "adam", "sgd"]
    assert drawn(browser, "curves") == [contenders]
    assert drawn(browser, "own") == [["adam-plus"], ["adam-plus"]]  # Σ‖z‖ and η
    assert drawn(browser, "rates") == [contenders]
    assert drawn(browser, "costs") == [contenders, contenders]
    lines = browser.find_elements("css selector", "#curves .chart .js-line")
    assert len([line for line in lines if line.get_attribute("d")]) >= 3
    assert messages(browser) == []


def test_the_page_requests_nothing_from_the_network(opened: Callable[..., Any], tmp_path: Path):
    three_contenders(tmp_path)
    events = [json.loads(entry["message"])["message"] for entry in opened().get_log("performance")]
    requested = [sent["params"]["request"]["url"] for sent in events if sent["method"] == "Network.requestWillBeSent"]
    assert any(url.startswith("file:") for url in requested)
    assert [url for url in requested if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_legend_hides_and_shows_a_contender_in_all_charts(opened: Callable[..., Any], tmp_path: Path):
    three_contenders(tmp_path)
    browser = opened()
    click(browser, '#legend button[data-label="1"]')
    for section in ("curves", "rates", "costs"):
        assert all(names == ["adam-plus", "sgd"] for names in drawn(browser, section))
    assert (
        browser.find_element("css selector", '#legend button[data-label="1"]').get_attribute("aria-pressed") == "false"
    )
    click(browser, '#legend button[data-label="1"]')
    for section in ("curves", "rates", "costs"):
        assert all(names == ["adam-plus", "adam", "sgd"] for names in drawn(browser, section))
    assert messages(browser) == []


def test_lost_trials_are_crosses_in_one_row_per_contender_above_the_lines(opened: Callable[..., Any], tmp_path: Path):
    three_contenders(tmp_path)  # each lost the trial at the same learning rate
    browser = opened()
    lost, domains = browser.execute_script(
        "const box = document.querySelector('#rates .chart');"
        "return [box.data.filter((t) => t.uid.startsWith('lost')).map((t) => [t.yaxis, t.x, t.y]),"
        " [box.layout.yaxis.domain, box.layout.yaxis2.domain]]"
    )
    assert lost == [["y2", [10], [row]] for row in range(3)]
    assert domains == [[0, pytest.approx(0.85)], [pytest.approx(0.85), 1]]
    assert len(browser.find_elements("css selector", "#rates .chart .xy2 .point")) == 3
    assert messages(browser) == []


def test_controls_change_the_curves(opened: Callable[..., Any], tmp_path: Path):
    three_contenders(tmp_path)
    browser = opened()

    def shows() -> list[Any]:
        return browser.execute_script(
            "const box = document.querySelector('#curves .chart'), line = box.data.find((t) => t.uid === 'line0');"
            "return [box.layout.yaxis.title.text, box.layout.xaxis.title.text, line.x, line.y]"
        )

    assert shows() == ["test accuracy at w", "epochs", [1, 2], [0.5, 0.9]]
    click(browser, 'input[value="ŵ"]')
    assert shows() == ["test accuracy at ŵ", "epochs", [1, 2], [0.5, 0.5]]
    click(browser, 'input[value="loss"]')
    click(browser, 'input[value="w"]')
    click(browser, 'input[value="train"]')
    click(browser, 'input[value="seconds"]')
    assert shows() == ["train loss at w", "seconds of training", [2, 4], [1.5, 1.1]]
    click(browser, 'input[value="running"]')
    assert shows()[0] == "running loss, as trained"
    click(browser, 'input[value="log"]')
    assert browser.execute_script("return document.querySelector('#curves .chart').layout.yaxis.type") == "log"
    assert messages(browser) == []


def long_runs(root: Path) -> None:
    """Two tasks of ten epochs, in which three contenders end within a tenth of what they rise by at first."""
    for task in ("digits", "tones"):
        for label, end in (("adam", 0.95), ("msgd", 0.951), ("a-contender-with-a-very-long-name", 0.9)):
            add_run(root, label, [0.1, *(end - 0.3 / i**2 for i in range(1, 9)), end], task=task)


def test_curves_show_the_end_of_training_unless_all_of_it_is_chosen(opened: Callable[..., Any], tmp_path: Path):
    long_runs(tmp_path)
    browser = opened()
    shown = "return document.querySelector('#curves .chart').layout.yaxis.range"
    low, high = browser.execute_script(shown)
    assert 0.8 < low < 0.9 < 0.951 < high < 0.97
    click(browser, 'input[value="all"]')
    low, high = browser.execute_script(shown)
    assert low < 0.1
    assert high > 0.951
    click(browser, 'input[value="log"]')
    low, high = browser.execute_script(shown)
    assert low < -1 < math.log10(0.951) < high  # powers of ten
    assert messages(browser) == []


@pytest.mark.parametrize("width", [1280, 420])
def test_lines_have_their_names_at_their_ends_and_names_do_not_overlap(
    opened: Callable[..., Any], tmp_path: Path, width: int
):
    long_runs(tmp_path)
    browser = opened(width=width)
    boxes = browser.execute_script(
        """
        return [...document.querySelectorAll("#curves .task:nth-of-type(2) .annotation-text")].map((text) => {
          const box = text.getBoundingClientRect();
          const room = text.closest(".chart").getBoundingClientRect().right - box.right;
          return [text.textContent, room, box.top, box.bottom];
        })
        """
    )
    names = {text for text, *_ in boxes}
    assert names >= {"adam", "msgd"}
    assert any(name.startswith("a-con") and name.endswith("-name") and "…" in name for name in names)
    assert all(room >= 0 for _, room, _, _ in boxes)
    places = sorted((top, bottom) for *_, top, bottom in boxes)
    assert all(bottom <= top + 1 for (_, bottom), (top, _) in itertools.pairwise(places))


def test_controls_of_curves_and_the_chart_of_memory_are_there_once_for_all_tasks(
    opened: Callable[..., Any], tmp_path: Path
):
    long_runs(tmp_path)
    browser = opened()
    assert len(browser.find_elements("css selector", 'input[value="validation"]')) == 1
    click(browser, 'input[value="validation"]')
    titles = browser.find_elements("css selector", "#curves .ytitle")
    assert [title.text for title in titles] == ["validation accuracy"] * 2
    titles = browser.find_elements("css selector", "#costs .xtitle")
    assert [title.text for title in titles] == ["steps per second", "steps per second", "state bytes per parameter"]


@pytest.mark.parametrize("width", [1280, 420])
def test_no_heading_that_the_contents_lead_to_is_under_the_legend(
    opened: Callable[..., Any], tmp_path: Path, width: int
):
    long_runs(tmp_path)
    browser = opened(width=width)
    links = browser.find_elements("css selector", ".contents a")
    shown = [link.get_attribute("href").partition("#")[2] for link in links if link.is_displayed()]
    assert {"results", "results-1", "results-2", "curves", "costs", "names", "method", "runs", "rerun"} == set(shown)
    for name in shown:
        browser.execute_script("location.hash = arguments[0]", name)
        hidden = browser.execute_script(
            """
            const place = document.getElementById(arguments[0]);
            const heading = place.matches("section") ? place.querySelector("h2") : place;
            const legend = document.getElementById("legend").getBoundingClientRect();
            const box = heading.getBoundingClientRect();
            return box.top < 0 || (legend.top <= 0 && legend.bottom > box.top + 16) || box.top > innerHeight;
            """,
            name,
        )
        assert not hidden, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_scrolls_only_vertically(scheme: str, opened: Callable[..., Any], tmp_path: Path):
    three_contenders(tmp_path)
    browser = opened(width=390, scheme=scheme)
    assert browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]") == [390, 390]
    wide = (
        "return [...document.querySelectorAll('.chart svg')].every((svg) => svg.getBoundingClientRect().right <= 391)"
    )
    assert browser.execute_script(wide)
    paper, ink = browser.execute_script(
        "const style = getComputedStyle(document.body);"
        "return [style.backgroundColor, style.color].map((c) => Number(/\\d+/.exec(c)[0]))"
    )
    assert (paper > ink) == (scheme == "light")
    assert messages(browser) == []


def test_charts_follow_the_colour_scheme(opened: Callable[..., Any], tmp_path: Path):
    three_contenders(tmp_path)
    fills = {}
    for scheme in ("light", "dark"):
        script = "return getComputedStyle(document.querySelector('.chart .xtick text')).fill"
        fills[scheme] = opened(scheme=scheme).execute_script(script)
    assert fills["light"] != fills["dark"]


def test_html_in_names_is_shown_as_text(opened: Callable[..., Any], tmp_path: Path):
    label = f"adam:{EVIL}"
    about = {"description": EVIL, "metric": EVIL}
    for seed in (1, 2):
        add_run(tmp_path, label, [0.5, 0.6], task=EVIL, seed=seed, about=about)
    add_run(tmp_path, label, [0.5], task=EVIL, seed=3, epochs=2, about=about, status="failed", reason=EVIL)
    for trial, lr in enumerate((0.1, 1.0)):
        add_run(tmp_path, label, [0.5, 0.6], task=EVIL, seed=0, phase="search", trial=trial, lr=lr, about=about)
    add_comparison(tmp_path, [label], tasks=[EVIL], command=EVIL, search={label: {EVIL: EVIL}})
    browser = opened()
    assert browser.find_elements("css selector", ".injected") == []
    assert browser.find_element("css selector", ".answers dt").text == EVIL
    assert label in browser.find_element("css selector", "#legend").text
    title = browser.find_element("css selector", "#curves .chart .ytitle")
    assert title.text == f"test {EVIL}"
    assert messages(browser) == []


def test_the_page_of_an_interrupted_comparison_works(opened: Callable[..., Any], tmp_path: Path):
    add_run(tmp_path, "adam", [0.4, 0.5], phase="search", seed=0)
    browser = opened()
    assert drawn(browser, "rates") == [["adam"]]
    assert not browser.find_element("css selector", "#curves").is_displayed()
    assert messages(browser) == []


def test_a_metric_that_ends_in_hat_is_not_taken_for_a_second_point(opened: Callable[..., Any], tmp_path: Path):
    add_run(tmp_path, "adam", [0.4, 0.5], about={"metric": "y_hat"})
    browser = opened()
    title = browser.find_element("css selector", "#curves .ytitle")
    assert title.text == "test y_hat"
    assert drawn(browser, "curves") == [["adam"]]
    assert browser.find_elements("css selector", 'input[value="ŵ"]') == []
    add_run(tmp_path, "adam-plus", [0.4, 0.5], about={"metric": "y_hat"}, columns={"test_y_hat_hat": 0.3})
    browser = opened()
    click(browser, 'input[value="ŵ"]')
    assert browser.find_element("css selector", "#curves .ytitle").text == "test y_hat at ŵ"
    assert drawn(browser, "curves") == [["adam", "adam-plus"]]
    assert messages(browser) == []
