"""JupyterLab for real: 02 and 08 run from a clean kernel in headless Chromium, the annotation
widget of 01 is clicked.

`make test-browser` runs it. The notebooks run from the committed values of mini (nothing is
trained), as copies under build/browser, where their outputs, the log of JupyterLab and screenshots
are left.
"""

import csv
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT, REFERENCE = ROOT / "build" / "browser", ROOT / "outputs" / "reference" / "mini"
MINUTE = 60_000  # in milliseconds
SETTINGS = {
    # cells out of sight are on the page, too
    "notebook-extension/tracker": '{"windowingMode": "none"}',
    # no network
    "apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false}',
}
ERROR = '[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]'
OUTPUT = ".jp-OutputArea-output"
DONE = f"""() => document.querySelector('{ERROR}') ||
    /\\[\\d+\\]:/.test([...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].pop()?.textContent)"""
CLICKED = [("full", "duplicate"), ("partial", "similar"), ("zero", "dissimilar")]


@contextmanager
def lab(browser, name: str) -> Iterator:
    """A page on which JupyterLab shows the notebook; its server has a free port, a token, settings
    of its own.
    """
    folder, settings = OUT / name, OUT / "settings"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", folder)
    for setting, text in SETTINGS.items():
        path = settings / "@jupyterlab" / f"{setting}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port, token = free.getsockname()[1], secrets.token_hex(16)
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
    ]
    command += [
        "--port-retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={folder}",
    ]
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONPATH"
    }  # of this script alone
    environment |= {
        "INTEREXTRA_REFERENCE": str(REFERENCE / name),
        "INTEREXTRA_OUTPUT": str(folder / "output"),
    }
    environment |= {
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    environment |= {
        "JUPYTER_PREFER_ENV_PATH": "1"
    }  # the kernel of this environment, not one from the user's home
    with (folder / "jupyterlab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(3 * MINUTE)
        try:
            while server.poll() is None and not answers(port):
                time.sleep(0.5)
            with page.expect_websocket(
                lambda opened: "/channels" in opened.url
            ):  # of a kernel: it can be restarted
                page.goto(f"http://127.0.0.1:{port}/lab/tree/{name}.ipynb?token={token}")
            yield page
        except BaseException:
            page.screenshot(path=folder / "failed.png")
            raise
        finally:
            page.close()
            server.terminate()  # and its kernels
            server.wait()


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def run_all(page, name: str) -> None:
    """Restart the kernel, run all cells: no error, nothing on the error stream, all tables of the
    reference written.
    """
    page.locator('[data-status="idle"].jp-Notebook-ExecutionIndicator').wait_for()
    page.locator('[data-command="notebook:restart-run-all"]').first.click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.wait_for_function(DONE, timeout=20 * MINUTE)
    errors = page.locator(ERROR).all_inner_texts()
    assert not errors, errors
    made, committed = (
        set(os.listdir(of / "tables")) for of in (OUT / name / "output", REFERENCE / name)
    )
    assert committed <= made, committed - made


def look(page, name: str) -> None:
    """The last table has rows, the last figure has pixels. (JupyterLab itself drops the alt text of
    a figure.)
    """
    table, figure = (page.locator(f"{OUTPUT} {what}").last for what in ("table", "img"))
    table.scroll_into_view_if_needed()
    page.screenshot(path=OUT / name / "table.png")
    rows = table.locator("tbody tr").all_inner_texts()
    figure.scroll_into_view_if_needed()
    page.screenshot(path=OUT / name / "figure.png")
    width, height = figure.evaluate("image => [image.naturalWidth, image.naturalHeight]")
    assert rows and min(width, height) > 200, (rows, width, height)
    print(
        f"{name}: all cells ran; last table {len(rows)} rows, last figure {width} × {height} pixels"
    )


def annotate(page, name: str) -> None:
    """Undo what the notebook labelled, label three pairs, undo the last label and give it again."""
    box = page.locator(f"{OUTPUT} .widget-vbox").first
    box.scroll_into_view_if_needed()

    def click(text: str, then: str) -> None:
        box.get_by_role("button", name=text, exact=True).click()
        box.get_by_text(then).wait_for()

    def sheet() -> list[dict]:
        with (OUT / name / "output" / "sheet_annotator_1.csv").open(
            newline="", encoding="utf-8"
        ) as file:
            return list(csv.DictReader(file))

    for _ in range(2):
        click("undo", re.compile(r"pair 1 "))
    total = len(sheet())
    for at, (entity, intent) in enumerate(CLICKED, start=1):
        assert [sheet()[at - 1][key] for key in ("test_query", "train_query")] == box.locator(
            "b"
        ).all_inner_texts()
        click(entity, re.compile(f"pair {at} "))
        click(intent, re.compile(f"pair {at + 1} · labelled {at} of {total}"))
    click("undo", re.compile(f"pair 3 · labelled 2 of {total}"))
    page.screenshot(path=OUT / name / "widget.png")
    click("dissimilar", re.compile(f"pair 4 · labelled 3 of {total}"))
    labels = [(row["entity"], row["intent"]) for row in sheet()]
    assert labels == CLICKED + [("", "")] * (total - 3), labels
    print(f"{name}: the sheet holds the three pairs that were clicked, of {total}")


@contextmanager
def started_chromium() -> Iterator:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    found = filter(None, map(shutil.which, names))
    chromium = next(found, None)
    if not chromium:
        raise SystemExit("no Chromium found: apt install chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def main() -> None:
    steps = {
        "02_restrain": look,
        "08_beir_correlation": look,
        "01_overlap_annotation_analysis": annotate,
    }
    with started_chromium() as browser:
        for name, step in steps.items():
            with lab(browser, name) as page:
                run_all(page, name)
                step(page, name)


if __name__ == "__main__":
    main()
