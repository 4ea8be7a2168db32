"""Corpora that any machine can have: made of packages, pinned by hash.

    python benchmarks/corpora.py NAME FOLDER

What pip or apt downloads must have the hash that is written here; what has another is refused, with
what was found. Nothing is installed or imported. `docstrings` needs pip alone, the others need
apt-get and dpkg-deb: they are descriptions and files of Debian 12's packages. isospace reads the
man pages of `manpages-*` by mandoc, which is a package of Debian too.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from isospace.corpus.lines import clean
from isospace.errors import UserError

WHEELS = {
    "astropy==7.0.1": "5b4831c5b8a8e6c62afc095d9f65e6c023f058821c1fcc829adc2d941090cd2a",
    "dask==2025.5.0": "77e9a64bb09098515bc579477b7051b0909474cd7b3e0005e3d0968a70c84015",
    "django==5.2.1": "a9b680e84f9a0e71da83e399f1e922e1ab37b2173ced046b541c72e1589a5961",
    "jax==0.6.0": "22b21827597c6d6b46e88543b4fc372fcddf1cc1247660452de020cc4bda1afc",
    "keras==3.9.2": "404427856c2dc30e38c9fa6fa6a13ffb1844a8c35af312ca32a8e7dea9840f1e",
    "matplotlib==3.10.3": "fdfa07c0ec58035242bc8b2c8aae37037c9a886370eef6850703d7583e19964b",
    "mne==1.9.0": "c26da9ac59bce963c5b25a3be9f5f61dd128f980cdc178a6fceef27743734306",
    "networkx==3.4.2": "df5d4365b724cf81b8c6a7312509d0c22386097011ad1abe274afd5e9d3bbc5f",
    "numpy==2.2.6": "ba10f8411898fc418a521833e014a77d3ca01c15b0c6cdcce6a0d2897e6dbbdf",
    "pandas==2.2.3": "c124333816c3a9b03fbeef3a9f230ba9a737e9e5bb4060aa2107a86cc0a497fc",
    "scikit-image==0.25.2": "24cc986e1f4187a12aa319f777b36008764e856e5013666a4a83f8df083c2641",
    "scikit-learn==1.6.1": "25fc636bdaf1cc2f4a124a116312d837148b5e10872147bdaf4887926b8c03d8",
    "scipy==1.15.3": "39cb9c62e471b1bb3750066ecc3a3f3052b37751c7c3dfd0fd7e48900ed52982",
    "sqlalchemy==2.0.41": "90c11ceb9a1f482c752a71f203a81858625d8df5746d787a4786bca4ffdf71c6",
    "statsmodels==0.14.4": "e332c2d9b806083d1797231280602340c5c913f90d4caa0213a6a54679ce9331",
    "sympy==1.13.3": "54612cf55a62755ee71824ce692986f23c88ffa77207b30c1368eda4a7060f73",
    "transformers==4.52.3": "cd04059da50e7cf2a617ce3143ba8beffbf119f8c25a0717c3454fd9d0f19609",
    "xarray==2025.4.0": "b27defd082c5cb85d32c695708de6bb05c2838fb7caaf3f952982e602a35b9b8",
}
"""Requirement -> SHA-256 of its wheel, for Python 3.11 on Linux where it is not for all."""

# Trusted since every file is compared with a hash below; so no keyring of Debian is needed.
SOURCE = "deb [trusted=yes] http://deb.debian.org/debian bookworm main\n"
LISTS = {
    "binary-amd64_Packages": "515e692f2c4121c6fcec444ef100cc18f79a991910615f3a88c8b7becfc94d2f",
    "i18n_Translation-de": "adac331fc51f9a00c1b4120b4ac87423be2b1f1615d4f288c7cbc2d5258c0650",
    "i18n_Translation-en": "62f59c3cdca9786e4f7adf9002f9f5729a684adcb4667e58e448dec9b5a46c7f",
    "i18n_Translation-ja": "642792836c58facc19a735181fc1bc53ac211fc082ff141377fc6be2d2498259",
    "i18n_Translation-ru": "150a6c5b969a2856ffb16908306ac2328ad61131df343a7e6418ebdc1a86c9bd",
}
"""apt's list -> SHA-256 of it, decompressed, as Debian's Release file has it."""


@dataclass(frozen=True)
class Package:
    """Files of a Debian package.

    Attributes:
        name: of the package.
        sha256: of its .deb.
        folder: folder of the files to copy, with their folders.
        files: which of them, as a pattern.
    """

    name: str
    sha256: str
    folder: str
    files: str


PACKAGES = {
    "python-docs": Package(
        "python3.11-doc",
        "50eb63e7f636c4281e9ce1b8f10386f1def42159eddce34fc1f41c46261df71b",
        "usr/share/doc/python3.11/html",
        "**/*.html",
    ),
    "manpages-de": Package(
        "manpages-de",
        "37d2e7ee51f22952aecec3af93647ff59194a3c74bb7a694560f49c7f7ab3978",
        "usr/share/man/de",
        "man*/*.gz",
    ),
    "manpages-ja": Package(
        "manpages-ja",
        "4d270e9a1e83be4de0c072a110892a17dc9caa4b501257324006ac28d82c5743",
        "usr/share/man/ja",
        "man*/*.gz",
    ),
    "manpages-ru": Package(
        "manpages-ru",
        "5d5821dad5840652ba9c1c6b85bdc785c1fc52148a71c18fab6658c9659244c0",
        "usr/share/man/ru",
        "man*/*.gz",
    ),
}

ANARCHISM = Package(
    "anarchism",
    "cf21c10948b00e923c62eb31c39a3390413fa26c5ee0e3b925feb0ec7fe42948",
    "usr/share/doc/anarchism/html",
    "[as]*[0-9].html",
)
FOLDOC = Package(
    "dict-foldoc",
    "745cbedb55c2da609cc88ee0284e9d11a67a11ae3709daf7bad0e895ac3294c3",
    "usr/share/dictd",
    "foldoc.*",
)
GCIDE = Package(
    "dict-gcide",
    "7b0af5cfde3cbdef5e9d6e78f92ec335ced7c2790f37a40f49bebc6f7347ac0f",
    "usr/share/dictd",
    "gcide.*",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make one of them; say how it is read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(CORPORA))
    parser.add_argument("folder", type=Path, help="a new or an empty one")
    options = parser.parse_args(arguments)
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"{folder}: expected a new or an empty folder")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            read = CORPORA[options.name](folder, Path(scratch))
    except UserError as error:
        sys.exit(str(error))
    print(f"isospace corpus {read}")


def docstrings(folder: Path, scratch: Path) -> str:
    """The Python files of the wheels; returns how isospace reads them."""
    return sources_of(WHEELS, folder, scratch)


def sources_of(wheels: Mapping[str, str], folder: Path, scratch: Path) -> str:
    """The Python files of some wheels, requirement -> SHA-256; returns how isospace reads them."""
    for requirement, sha256 in wheels.items():
        into = scratch / requirement
        target = ["--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]
        target += ["--abi=cp311", "--abi=none", "--platform=manylinux2014_x86_64", "--platform=any"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        _run([*pip, *target, f"--dest={into}", requirement], scratch)
        [wheel] = into.iterdir()
        require_hash(wheel, sha256)
        with zipfile.ZipFile(wheel) as files:
            files.extractall(folder, [name for name in files.namelist() if name.endswith(".py")])
    return f"docstrings:{folder}"


def descriptions(language: str, folder: Path, scratch: Path) -> str:
    """Synopsis and description of each Debian package that has them in a language."""
    _apt(scratch, "update", f"-oAcquire::Languages={language}")
    texts = []
    for name in ("binary-amd64_Packages", f"i18n_Translation-{language}"):
        [path] = (scratch / "lists").glob(f"*_main_{name}")
        require_hash(path, LISTS[name])
        texts.append(path.read_text("utf-8"))
    packages, translations = map(stanzas, texts)
    sources = {stanza["Package"]: source(stanza) for stanza in packages}
    rows = {
        stanza["Package"]: description(stanza, language)
        for stanza in translations
        if stanza["Package"] in sources
    }
    with (folder / f"descriptions-{language}.jsonl").open("w", encoding="utf-8") as file:
        for name, row in rows.items():
            made = {"id": name, **row, "source": sources[name]}
            file.write(json.dumps(made, ensure_ascii=False) + "\n")
    return f"{folder} --title-column title --group source"


def documents(package: Package, folder: Path, scratch: Path) -> str:
    """Files of a Debian package, as they are."""
    _apt(scratch, "update", "-oAcquire::Languages=none")
    _apt(scratch, "download", package.name)
    [deb] = scratch.glob("*.deb")
    require_hash(deb, package.sha256)
    _run(["dpkg-deb", "--extract", str(deb), str(scratch / "files")], scratch)
    root = scratch / "files" / package.folder
    for file in sorted(root.glob(package.files)):
        if file.is_file() and not file.is_symlink():
            place = folder / file.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    return str(folder)


def questions(folder: Path, scratch: Path) -> str:
    """Write a document for each question of An Anarchist FAQ.

    Returns:
        How isospace reads the folder.
    """
    documents(ANARCHISM, scratch / "html", scratch)
    for path in sorted((scratch / "html").glob("*.html")):
        # A section opens with a question of its own, in h1.
        parts = re.split(r"<h[12]>(.*?)</h[12]>", path.read_text("utf-8"), flags=re.DOTALL)
        for place, (question, answer) in enumerate(zip(parts[1::2], parts[2::2], strict=True)):
            if not _PROSE.search(answer):
                continue  # a table of contents
            title = _NUMBER.sub("", clean(_TAGS.sub("", question)))
            page = f"<title>{title}</title>\n<h1>{title}</h1>\n{answer}"
            (folder / f"{path.stem}-{place + 1}.html").write_text(page, "utf-8")
    return str(folder)


_NUMBER = re.compile(r"\A(?:[A-J](?:\.\d+)+|\d+\.?|-)\s+")
_TAGS = re.compile("<[^>]*>")
_PROSE = re.compile(r"<p>(?:\s|<[^>]*>)*\w")


def foldoc(folder: Path, scratch: Path) -> str:
    """Write headword and explanation of each entry of the dictionary of computing.

    Returns:
        How isospace reads the folder.
    """
    return glossary("foldoc", map(explained, entries(FOLDOC, scratch)), folder)


def webster(folder: Path, scratch: Path) -> str:
    """Write the longer entries of Webster's dictionary of 1913, one row a headword.

    Entries that somebody added or changed after 1913 are left out.

    Returns:
        How isospace reads the folder.
    """
    texts: dict[str, list[str]] = {}
    for row in map(defined, filter(only_of_1913, entries(GCIDE, scratch))):
        texts.setdefault(row["title"], []).append(row["text"])
    rows = ({"title": title, "text": "\n\n".join(parts)} for title, parts in texts.items())
    return glossary("webster", (row for row in rows if len(row["text"]) >= PROSE), folder)


PROSE = 200
"""Characters of an entry that says more than a synonym."""


def glossary(name: str, rows: Iterable[Mapping[str, str]], folder: Path) -> str:
    """Write the rows that have a text; return how isospace reads them."""
    with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            if row["text"]:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return f"{folder} --title-column title"


def entries(package: Package, scratch: Path) -> Iterator[str]:
    """Yield each entry of a dictionary in dictd's format, in its order."""
    documents(package, scratch / "dictd", scratch)
    [compressed] = (scratch / "dictd").glob("*.dict.dz")
    [index] = (scratch / "dictd").glob("*.index")
    text = gzip.decompress(compressed.read_bytes())
    words = (line.split("\t") for line in index.read_text("utf-8").splitlines())
    places = {
        (number(start), number(length))
        for word, start, length in words
        if not word.startswith("00-database")
    }
    for start, length in sorted(places):
        yield text[start : start + length].decode("utf-8", "replace")


def number(digits: str) -> int:
    """A number as dictd's indices write it, in base 64.

    >>> number("K5")
    697
    """
    value = 0
    for digit in digits:
        value = 64 * value + _DIGITS.index(digit)
    return value


def explained(entry: str) -> dict[str, str]:
    r"""Headword and explanation, without marks of links, subjects and dates.

    >>> explained("ALEC\n\n   <language> A {language} for an\n   {ICL 1906A}.\n\n   (1995-04-19)\n")
    {'title': 'ALEC', 'text': 'A language for an ICL 1906A.'}
    """
    title, *lines = entry.strip("\n").split("\n")
    # Lines that are not indented are the same word written otherwise.
    text = "\n".join(line for line in lines if line.startswith(" ") or not line)
    paragraphs = [_MARKS.sub("", clean(part)) for part in text.split("\n\n")]
    return {"title": title.strip(), "text": "\n\n".join(filter(None, paragraphs))}


_MARKS = re.compile(r"\A(?:\d+\. )?<[^>]*> ?|\A\(\d{4}-\d\d-\d\d\)\Z|[{}]")
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def only_of_1913(entry: str) -> bool:
    """Return whether all sources that an entry names are Webster's dictionary of 1913."""
    sources = set(_SOURCES.findall(entry))
    return bool(sources) and sources <= {"1913 Webster", "Webster 1913 Suppl."}


def defined(entry: str) -> dict[str, str]:
    r"""Return headword and definition, without pronunciation, etymology and names of sources.

    >>> defined("Caloric \\Ca*lor\"ic\\, n. [L. calor.] (Physics)\n   The cause of {heat}.\n")
    {'title': 'Caloric', 'text': 'The cause of heat.'}
    """
    entry = _LETTERS.sub(r"\1\2\3", _SOURCES.sub("\n", entry))
    for name, sign in _SIGNS.items():
        entry = entry.replace(f"[{name}]", sign)
    title, _, rest = entry.strip().partition("\\")
    paragraphs = [clean(part) for part in rest.split("\n\n")]
    # The head ends with the pronunciation of the last way to write the word.
    paragraphs[0] = _GRAMMAR.sub("", paragraphs[0].rpartition("\\")[2])
    cleaned = (_AUTHOR.sub("", part).translate(_BRACES).strip() for part in paragraphs)
    return {"title": title.strip(" ,"), "text": "\n\n".join(filter(None, cleaned))}


_SOURCES = re.compile(r"\[((?=[^\]]*(?:Webster|WordNet|PJC|RDH|Century))[^\]]*)\].*")
_LETTERS = re.compile(r"\[(?:[^\w\s\]](\w\w?)|(ae|oe|AE|OE)|(\w\w?)[^\w\s\].])\]")
_SIGNS = {"deg": " degrees", "sect": "§", "pounds": "£", "root": "", "imac": "i", "aum": "a"}
_SIGNS |= {"eth": "th", "thorn": "th"}
_GRAMMAR = re.compile(
    r"\A(?:[\s,;.&]|(?:[a-z]+\.)|\((?:[^()]|\([^()]*\))*\)|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*"
)
_AUTHOR = re.compile(r"\s*--[A-Z(][^;]{0,60}\Z")
_BRACES = str.maketrans("", "", "{}")


def require_hash(path: Path, sha256: str) -> None:
    """Refuse a file that is not the one that was pinned.

    Raises:
        UserError: what was found.
    """
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise UserError(f"{path.name}: has SHA-256 {found}. Expected {sha256}")


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Field -> value of each paragraph of one of Debian's control files."""
    for part in text.strip().split("\n\n"):
        lines = re.split(r"\n(?! )", part)  # a line that goes on begins with a blank
        yield {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def source(stanza: Mapping[str, str]) -> str:
    """The source package, which several packages of one project have in common."""
    return stanza.get("Source", stanza["Package"]).split()[0]


def description(stanza: Mapping[str, str], language: str) -> dict[str, str]:
    """The title, and the text with blank lines between paragraphs; an item of a list is one.

    Lines that are indented begin with a bullet, or go on with the item before.
    """
    synopsis, *lines = stanza[f"Description-{language}"].split("\n")
    paragraphs: list[str] = []
    goes_on = False
    for line in lines:
        bullet = _BULLET.match(line)
        if line.strip() == ".":
            goes_on = False
        elif bullet or not goes_on:
            paragraphs.append(line[bullet.end() :] if bullet else line)
            goes_on = True
        else:
            paragraphs[-1] += f"\n{line}"
    return {"title": synopsis, "text": "\n\n".join(map(clean, paragraphs))}


_BULLET = re.compile(r" +(?:[-*+o•·]|\(?\d{1,2}[.)]) +")


def _apt(scratch: Path, *command: str) -> None:
    """Run apt-get with lists and a cache of its own, so that it needs no rights."""
    (scratch / "sources.list").write_text(SOURCE)
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::sourcelist": scratch / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Sandbox::User": "",
        "Acquire::GzipIndexes": "false",  # lists as they are, decompressed
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    _run(["apt-get", "--quiet", *options, *command], scratch)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise UserError(f"{command[0]}: not on this machine; see the top of this script") from None
    except subprocess.CalledProcessError as error:
        raise UserError(f"{' '.join(command)}: {error.stderr.strip()}") from None


CORPORA: dict[str, Callable[[Path, Path], str]] = {
    "docstrings": docstrings,
    "foldoc": foldoc,
    "webster": webster,
    "anarchism": questions,
    **{f"debian-{code}": partial(descriptions, code) for code in ("de", "en", "ja", "ru")},
    **{name: partial(documents, package) for name, package in PACKAGES.items()},
}
"""Name -> what fills a folder by means of another, and says what is given to isospace."""


if __name__ == "__main__":
    main()
