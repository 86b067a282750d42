"""Opens pages of results in headless Chromium: layout, keyboard, accessibility, no script, print.

``tools/report_look.py`` runs it, in an environment that has playwright and axe-core::

    python tools/measure.py browser_look CHROMIUM FOLDER PAGE...

Exit code 1 where something does not hold; the pictures are in FOLDER.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

#: Pixels; the narrowest is checked and not pictured.
WIDTHS = (1280, 390, 360)
SCHEMES = ("light", "dark")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
#: Elements that stand out of the window, but for those in a place of their own that scrolls.
OUTSIDE = """() => [...document.querySelectorAll('body *')].filter(
    e => e.getBoundingClientRect().right > innerWidth + 1
        && !e.closest('.scroll, pre, .skip, thead')).map(e => e.outerHTML.slice(0, 80))"""
#: The element with the focus, and whether it shows that.
FOCUSED = """() => { const e = document.activeElement, s = getComputedStyle(e);
    const is_shown = s.outlineStyle != 'none' && parseFloat(s.outlineWidth) > 0;
    return [e.outerHTML.slice(0, 80), e.tagName, is_shown] }"""
FOCUSABLE = "a[href], summary, [tabindex='0']"


def look(browser: Any, path: Path, folder: Path) -> Iterator[str]:
    """Yield what is wrong with a page."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            page = opened(browser, path, width, scheme)
            seen = f"{path.stem} {width} {scheme}"
            if page.evaluate("document.documentElement.scrollWidth") > width:
                yield f"{seen}: the page scrolls sideways: {page.evaluate(OUTSIDE)[:3]}"
            if width != WIDTHS[-1]:
                page.screenshot(path=folder / f"{path.stem}-{width}-{scheme}.png", full_page=True)
                yield from accessibility(page, seen)
            page.context.close()
    yield from keyboard(opened(browser, path, 1280, "light"), path.stem)
    yield from scripts(browser, path)
    printed = opened(browser, path, 1280, "dark")
    printed.pdf(path=folder / f"{path.stem}.pdf", format="A4")


def opened(browser: Any, path: Path, width: int, scheme: str, **options: Any) -> Any:
    # axe-core is a script, which the page's policy would not let run.
    options = {"bypass_csp": True, **options}
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **options
    )
    page = context.new_page()
    page.goto(path.resolve().as_uri())
    return page


def accessibility(page: Any, seen: str) -> Iterator[str]:
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = Axe().run(page, options={"runOnly": [*RULES]})
    engine, passed = found.response["testEngine"], len(found.response["passes"])
    count = found.violations_count
    print(f"{seen}: {engine['name']} {engine['version']}: {passed} rules, {count} violations")
    for violation in found.response["violations"]:
        yield f"{seen}: {violation['id']}: {violation['nodes'][0]['html'][:200]}"


def keyboard(page: Any, seen: str) -> Iterator[str]:
    """Yield what the Tab key does not reach, or reaches without showing it."""
    wanted = page.evaluate(f"""[...document.querySelectorAll("{FOCUSABLE}")]
        .filter(e => e.checkVisibility({{contentVisibilityAuto: true}})).length""")
    reached = 0
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        html, tag, is_shown = page.evaluate(FOCUSED)
        if tag == "BODY":
            break
        reached += 1
        if not is_shown:
            yield f"{seen}: the focus does not show: {html}"
    print(f"{seen}: the Tab key reaches {reached} of {wanted} elements")
    if reached != wanted:
        yield f"{seen}: the Tab key reaches {reached} of {wanted} elements"
    page.context.close()


def scripts(browser: Any, path: Path) -> Iterator[str]:
    """Yield what runs or is loaded, with the page's policy and without it."""
    for bypass in (False, True):
        context = browser.new_context(bypass_csp=bypass)
        page = context.new_page()
        told: list[str] = []
        page.on("request", lambda request, told=told: told.append(request.url[:80]))
        page.on("console", lambda message, told=told: told.append(message.text))
        page.on("dialog", lambda dialog, told=told: told.append(dialog.message))
        page.goto(path.resolve().as_uri())
        page.wait_for_timeout(300)
        if page.evaluate("window.ran"):
            yield f"{path.stem}: a script has run"
        others = [text for text in told if text != path.resolve().as_uri()[:80]]
        if others:
            yield f"{path.stem}: {others[:3]}"
        context.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chromium", help="the program")
    parser.add_argument("folder", type=Path, help="of the pictures")
    parser.add_argument("pages", type=Path, nargs="+", metavar="PAGE")
    args = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium)
        print(f"Chromium {browser.version}")
        problems: list[str] = []
        for page in args.pages:
            problems += look(browser, page, args.folder)
        browser.close()
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
