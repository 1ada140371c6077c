// What the theme adds after it has loaded: tables and code that scroll take the focus of the keyboard, and code names
// its buttons.
document$.subscribe(() =>
  setTimeout(() => {
    document.querySelectorAll(".md-typeset__scrollwrap, pre > code").forEach((wide) => (wide.tabIndex = 0));
    document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  }, 100)
);
