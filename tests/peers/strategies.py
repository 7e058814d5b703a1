"""Generated objects and texts: pods and containers from the messages' descriptors, JSON with all that Go minds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from nri.proto import nri_pb2 as api

M = TypeVar("M", bound=Message)
# What requests are made of; the rest of a pod or container only costs time here.
USED = {
    "PodSandbox": {"id", "name", "labels", "annotations", "linux", "pid"},
    "Container": {"id", "pod_sandbox_id", "labels", "annotations", "linux", "pid"},
    "LinuxPodSandbox": {"cgroups_path", "namespaces", "resources"},
    "LinuxContainer": {"cgroups_path", "namespaces", "resources"},
}
TEXTS = st.one_of(
    st.sampled_from(["", "a", "<>&'\"\\/", "\u2028\u2029\u0085", "\x00\x1f\x7f", "é\u0301", "😀", "\ufffd\ufeff"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
BITS = {"INT32": (31, True), "INT64": (63, True), "UINT32": (32, False), "UINT64": (64, False)}


def pods() -> st.SearchStrategy[api.PodSandbox]:
    """Pods; they always have an id."""

    def with_id(pod: api.PodSandbox, id_: str) -> api.PodSandbox:
        pod.id = pod.id or id_
        return pod

    return st.builds(with_id, messages(api.PodSandbox), TEXTS.filter(bool))


def containers() -> st.SearchStrategy[api.Container]:
    return messages(api.Container)


def messages(of: type[M], used: Mapping[str, set[str]] = USED) -> st.SearchStrategy[M]:
    """Any message of the type, every field of it there or not; of some types no more than the fields that are used."""
    some = used.get(of.DESCRIPTOR.name)
    fields: Any = of.DESCRIPTOR.fields
    drawn = {field.name: values(field, used) for field in fields if some is None or field.name in some}
    return st.fixed_dictionaries({}, optional=drawn).map(lambda given: of(**given))


def values(field: FieldDescriptor, used: Mapping[str, set[str]]) -> st.SearchStrategy[Any]:
    if field.message_type and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        return st.dictionaries(value_of(key, used), value_of(value, used), max_size=4)
    return st.lists(value_of(field, used), max_size=4) if field.is_repeated else value_of(field, used)


def value_of(field: FieldDescriptor, used: Mapping[str, set[str]]) -> st.SearchStrategy[Any]:
    if field.message_type:
        return messages(GetMessageClass(field.message_type), used)
    if field.enum_type:
        return st.sampled_from([value.number for value in field.enum_type.values])
    kinds = {number: name[5:] for name, number in vars(FieldDescriptor).items() if name[:5] == "TYPE_"}
    kind = kinds[field.type]
    if kind in BITS:
        bits, signed = BITS[kind]
        return st.integers(-(2**bits) if signed else 0, 2**bits - 1)
    return st.booleans() if kind == "BOOL" else TEXTS


GOOD_STRINGS = [
    *(b'""', b'"x"', b'"\\n\\/\\"\\\\"', rb'"\u003c\u2028"', rb'"\ud83d\ude00"', rb'"\ud800"', rb'"\ud83dx\ude00"'),
    *(b'"\x7f"', '"é<>&\u2028😀"'.encode(), b'"\xff\xc3"'),
]
BAD_STRINGS = [rb'"\x41"', rb'"\u12"', b'"\t"', b"'x'", b'"']
GOOD_SCALARS = [
    *(b"null", b"true", b"false", b"0", b"-0", b"1.10", b"1e5", b"-1.5E-3", b"12345678901234567890", b"{}", b"[]"),
]
BAD_SCALARS = [b"01", b"+1", b".5", b"1.", b"-", b"NaN", b"Infinity", b"nul", b"True", b"//", b""]

STRINGS = st.one_of(
    st.sampled_from(GOOD_STRINGS * 20 + BAD_STRINGS),
    st.text(max_size=5).map(lambda text: b'"%s"' % text.encode("utf-8", "replace")),
)
SCALARS = st.sampled_from(GOOD_SCALARS * 20 + BAD_SCALARS)
SPACES = st.sampled_from([b""] * 60 + [b" ", b"\t\r\n"] * 10 + [b"\f", b"\xc2\xa0", b"\xef\xbb\xbf"])


def objects(keys: st.SearchStrategy[bytes], of: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Text of an object, duplicate keys and odd white space included."""
    member = st.tuples(SPACES, keys, SPACES, of).map(lambda parts: b"%s%s%s:%s" % parts)
    return st.lists(member, max_size=5).map(lambda members: b"{%s}" % b",".join(members))


def arrays(of: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(of, max_size=3).map(lambda elements: b"[%s]" % b" ,".join(elements))


ANYTHING = st.recursive(
    st.one_of(STRINGS, SCALARS), lambda of: st.one_of(arrays(of), objects(STRINGS, of)), max_leaves=6
)


def named(*names: str) -> st.SearchStrategy[bytes]:
    """Keys that are, or come near to, one of the names."""
    spellings = [
        s for name in names for s in (name, name, name.title(), name.upper(), name.replace("s", "\u017f"), name + "2")
    ]
    escaped = [rf"\u{ord(name[0]):04x}{name[1:]}" for name in names]
    return st.sampled_from([b'"%s"' % spelling.encode() for spelling in (*spellings, *escaped, "")])


def result_texts() -> st.SearchStrategy[bytes]:
    texts = st.one_of(st.just(b'""'), st.just(b'""'), STRINGS, st.just(b"null"))
    entries = objects(STRINGS, st.one_of(texts, texts, ANYTHING))
    keys = named("plugin", "version", "error")
    right = st.tuples(keys, texts, keys, texts, named("metadata"), entries).map(lambda p: b"{%s:%s,%s:%s,%s:%s}" % p)
    wrong = objects(named("plugin", "version", "error", "metadata"), st.one_of(texts, entries, ANYTHING))
    return st.one_of(right, right, wrong, ANYTHING)


def conf_texts() -> st.SearchStrategy[bytes]:
    """What may stand in a conf.json; the types are plain names."""
    types = st.sampled_from([b'"a"', b'"b"', rb'"\u0061"', b'"a"'])
    plugin = st.one_of(
        st.tuples(named("type"), types, named("conf"), ANYTHING).map(lambda parts: b"{%s:%s,%s:%s}" % parts),
        types.map(lambda name: b'{"type":%s}' % name),
        objects(named("type", "conf"), st.one_of(types, ANYTHING)),
    )
    # `plugins` once only: Go decodes a second list into the elements of the first, which nobody wants.
    lists = st.one_of(arrays(plugin), arrays(plugin), ANYTHING)
    whole = st.tuples(named("version"), STRINGS, named("plugins"), lists).map(lambda parts: b"{%s:%s,%s:%s}" % parts)
    return st.one_of(whole, whole, objects(named("version"), ANYTHING), ANYTHING)


@st.composite
def broken(draw: st.DrawFn, texts: st.SearchStrategy[bytes]) -> bytes:
    """Text with some bytes taken out and others put in their place, or with something behind it."""
    text = draw(texts)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(start + 3, len(text))))
    others = draw(st.sampled_from([b"", b" ", b",", b"}", b"{}", b'"', b"\\", b"\0", b"\xff"]))
    return text[:start] + others + text[end:]
