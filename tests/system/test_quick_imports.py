"""Imports without garbage collections: nothing else is left without them."""

from __future__ import annotations

import gc
import importlib

import pytest

from isospace.system.quick_imports import quick_imports


def test_collections_come_back():
    with quick_imports():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_come_back_after_an_import_that_fails():
    with pytest.raises(ImportError), quick_imports():
        importlib.import_module("isospace.no_such_module")
    assert gc.isenabled()


def test_who_has_turned_them_off_finds_them_off():
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
