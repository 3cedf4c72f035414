# lxml has no types of its own; these are the parts that the brain uses.
from collections.abc import Iterator, KeysView
from typing import Literal

class XMLSyntaxError(SyntaxError): ...

class _Attributes:
    def keys(self) -> KeysView[str]: ...
    def __iter__(self) -> Iterator[str]: ...

class _DocInfo:
    internalDTD: object | None  # noqa: N815 - its name in lxml
    doctype: str

class _ElementTree:
    docinfo: _DocInfo

class ElementBase:
    text: str | None
    attrib: _Attributes
    def get(self, key: str) -> str | None: ...
    def iter(self, tag: str) -> Iterator[ElementBase]: ...
    def getroottree(self) -> _ElementTree: ...

class XMLParser:
    def __init__(
        self, *, resolve_entities: bool, no_network: bool, load_dtd: bool, huge_tree: bool, remove_comments: bool
    ) -> None: ...

class XMLSchema:
    def __init__(self, etree: ElementBase) -> None: ...
    def validate(self, etree: ElementBase) -> bool: ...

def Element(tag: str) -> ElementBase: ...  # noqa: N802 - its name in lxml
def SubElement(parent: ElementBase, tag: str, attrib: dict[str, str] | None = ...) -> ElementBase: ...  # noqa: N802 - its name in lxml
def fromstring(text: bytes, parser: XMLParser | None = ...) -> ElementBase: ...
def tostring(element: ElementBase, *, encoding: Literal["unicode"]) -> str: ...
