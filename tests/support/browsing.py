"""Pages in headless Chromium: at a width, in a colour scheme, on paper; what they ask for."""

import json
import re

import numpy as np

SCREENS = {"desktop": 1280, "tablet": 768, "phone": 390, "small phone": 360}

TEXTS = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
while (walker.nextNode()) {
  const parent = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || parent.closest("style, title")) continue;
  const style = getComputedStyle(parent);
  let ground = parent;
  while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground =
  ground.parentElement; const svg = parent instanceof SVGElement;
  const scale = svg ? parent.getScreenCTM().a ** 2 + parent.getScreenCTM().b ** 2 : 1;
  found.push({
    text: walker.currentNode.data.trim().slice(0, 40),
    size: parseFloat(style.fontSize) * Math.sqrt(scale),
    ground: getComputedStyle(ground).backgroundColor,
    colour: svg ? style.fill : style.color,
  });
}
return found;
"""
"""Every text of the page: its size in pixels, its colour, and what lies behind it."""


def open_page(browser, url):
    """Open a page in the light, with the logs of what came before thrown away."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    show(browser, 1280)
    go(browser, url)


def go(browser, url):
    """Load a page, and wait until it is there: on a busy machine the driver returns before."""
    from selenium.webdriver.support.wait import WebDriverWait

    browser.get(url)
    loaded = "return document.readyState === 'complete' && document.documentElement.lang !== ''"
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(loaded))


def show(browser, width, scheme="light", media="screen"):
    """Set the width of the window, the colour scheme, and screen or print."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def requests(browser):
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
    return [event["params"]["request"]["url"] for event in sent]


def require_readable(browser, width, scheme, texts):
    """Show a page, and require that it fits and that its texts are readable; return its colour.

    The page must have more texts than `texts`. Each must be large and have enough contrast.
    """
    show(browser, width, scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (contrast(paper, "rgb(0, 0, 0)") > 10) == (scheme == "light")
    found = browser.execute_script(TEXTS)
    assert len(found) > texts
    for text in found:
        assert text["size"] >= 12, text
        assert contrast(text["colour"], text["ground"]) >= 4.5, text
    return paper


def contrast(colour, other):
    """WCAG's ratio of two colours, 1 to 21."""
    shades = []
    for text in (colour, other):
        values = np.array([float(x) for x in re.findall(r"[\d.]+", text)[:3]])
        values = values if text.startswith("color(srgb") else values / 255
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        shades.append(float(linear @ (0.2126, 0.7152, 0.0722)) + 0.05)
    return max(shades) / min(shades)
