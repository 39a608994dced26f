"""The addresses of this machine and the interfaces that have them, from the kernel itself (rtnetlink(7)): no tool has to be there."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_RTM_NEWADDR, _RTM_GETADDR, _NLMSG_DONE, _NLMSG_ERROR = 20, 22, 3, 2
_NLM_F_REQUEST, _NLM_F_DUMP = 1, 0x300
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFA_F_TENTATIVE, _IFA_F_DEPRECATED, _IFA_F_DADFAILED = 0x40, 0x20, 0x08
_SCOPE_GLOBAL = 0
_HEADER, _ADDRESS, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=HH")
_READ_SECONDS, _MAX_READ = 5.0, 1 << 20


@dataclass(frozen=True)
class LocalAddress:
    address: str
    interface: str


def local_addresses() -> list[LocalAddress]:
    """What other machines may use, in the kernel's order, IPv4 first: no loopback, no link-local, nothing that is being given up."""
    found = [each for family in (socket.AF_INET, socket.AF_INET6) for each in _addresses(family)]
    return list(dict.fromkeys(found))


def route_towards(address: str) -> LocalAddress | None:
    """The address and interface with which this machine would speak to that one. Nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((address, 9))
            own = str(asked.getsockname()[0])
    except OSError:
        return None
    return LocalAddress(own, interface_of(own))


def interface_of(address: str) -> str:
    """The interface that has an address of this machine; `lo` for those of the loopback, empty when none has it."""
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return "lo"
    return next((each.interface for each in local_addresses() if each.address == address), "")


def _addresses(family: socket.AddressFamily) -> Iterator[LocalAddress]:
    try:
        messages = _dump(family)
    except OSError:
        return  # no such family in this kernel
    for message in messages:
        _family, _prefix, flags, scope, index = _ADDRESS.unpack_from(message)
        attributes = dict(_attributes(message[_ADDRESS.size :]))
        raw = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
        if raw is None or scope != _SCOPE_GLOBAL or flags & (_IFA_F_TENTATIVE | _IFA_F_DEPRECATED | _IFA_F_DADFAILED):
            continue
        address = ipaddress.ip_address(raw)
        if address.is_loopback or address.is_link_local:
            continue
        try:
            yield LocalAddress(str(address), socket.if_indextoname(index))
        except OSError:
            continue  # the interface went away meanwhile


def _dump(family: socket.AddressFamily) -> list[bytes]:
    """The bodies of the kernel's answers to a request for every address of a family."""
    body = _ADDRESS.pack(family, 0, 0, 0, 0)
    request = _HEADER.pack(_HEADER.size + len(body), _RTM_GETADDR, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0) + body
    found: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_READ_SECONDS)
        kernel.bind((0, 0))
        kernel.send(request)
        while True:
            data = kernel.recv(_MAX_READ)
            position = 0
            while position + _HEADER.size <= len(data):
                length, kind, *_rest = _HEADER.unpack_from(data, position)
                if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < _HEADER.size:
                    return found
                if kind == _RTM_NEWADDR:
                    found.append(data[position + _HEADER.size : position + length])
                position += _aligned(length)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, position)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[position + _ATTRIBUTE.size : position + length]
        position += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
