"""Texts that would run if a report took them for more than text: by its tags, and in Chromium."""

from __future__ import annotations

import base64
import hashlib
import re

import numpy as np
import pytest
from attacks import ATTACKS, COMPUTED, harmless, require_harmless, structure
from browsing import open_page, provoke, requests
from report_runs import finish, page_of, results_of, write_run

from isospace.adaptation.results import (
    FILE,
    BestOfKind,
    CandidateScores,
    ChangedQuery,
    SearchResults,
)
from isospace.config import CorpusConfig
from isospace.statistics.verdict import VerdictKind
from isospace.system import typed_json
from isospace.training.origin import Origin
from isospace.training.results import CorpusFacts
from isospace.training.selection import Choice


def attacked_run(folder, texts):
    """A run in which every text that is not isospace's own is one of these."""
    source = iter([*texts] * 3)
    model, corpus, group, name, value = (next(source) for _ in range(5))
    text = CorpusConfig(corpus=(corpus,), column=group, title_column=name)
    run = write_run(folder, model=model, text=text, query_prompt=value)
    usual = results_of()
    finish(
        run,
        origin=Origin(next(source), next(source), next(source)),
        corpus=CorpusFacts(1000, next(source), {next(source): 7}, 32),
        pooling=next(source),
        choice=Choice(4, "last", "pairs_mrr", 0.5, 0.4, (), next(source)),
        verdict=usual.verdict.__class__(
            VerdictKind.ADAPTED, next(source), next(source), usual.verdict.gain
        ),
        environment={next(source): next(source)},
        candidate=next(source),
    )
    run.log("step", {"step": 5, "sentences": 320, "terms": {"info_nce": 0.1}})
    vectors = np.random.default_rng(0).normal(size=(2, len(texts) + 20, 8))
    run.write_sample([*texts, *(f"sentence {i}" for i in range(20))], *vectors)
    changed = ChangedQuery(
        next(source), next(source), (9.0, 1.0), ((next(source),), (next(source),))
    )
    one = BestOfKind(next(source), next(source), True, 0.5, None, {}, 1.0)
    tried = CandidateScores(next(source), "base model", 0.5, {next(source): 0.1}, True)
    baseline = next(source)
    searched = SearchResults(
        (tried,), (one,), {baseline: 0.4}, (next(source),), next(source), 0.5, next(source),
        (changed,), (changed,), 2.0, {baseline: usual.verdict.gain},
    )  # fmt: skip
    typed_json.write(folder / FILE, searched)
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    attacked_run(folder / "run", list(ATTACKS.values()))
    attacked_run(folder / "harmless" / "run", list(map(harmless, ATTACKS.values())))
    page_of(folder / "run"), page_of(folder / "harmless" / "run")
    return folder


def test_attacks_make_no_tag_and_no_attribute(folder):
    page, same = (
        (place / "report.html").read_text(encoding="utf-8")
        for place in (folder / "run", folder / "harmless" / "run")
    )
    require_harmless(page, same)
    shown = "".join(structure(page).texts)
    told = [attack for attack in ATTACKS.values() if attack in shown]
    assert len(told) > len(ATTACKS) / 2
    assert COMPUTED not in page


def test_the_policy_lets_one_script_run_and_no_other(folder):
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; ")


def test_nothing_runs_in_a_browser(folder, chromium):
    address = (folder / "run" / "report.html").as_uri()
    open_page(chromium, address)
    provoke(chromium)
    assert chromium.execute_script("return window.ran") is None
    assert chromium.title == "isospace: run"
    assert requests(chromium) == [address]
    assert chromium.get_log("browser") == []  # the policy had nothing to stop
    # And if a text were taken for a tag the policy would stop it.
    chromium.execute_script("document.body.innerHTML += arguments[0]", ATTACKS["image"])
    assert chromium.execute_script("return window.ran") is None
