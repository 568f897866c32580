"""A conversation over a channel: the tests ask, and the program acts on its objects."""

from __future__ import annotations

from typing import Any

from .values import decode, encode
from .wire import Channel, WireError

Message = dict[str, Any]


class Session:
    """Requests, replies, and the tables of objects that they name.

    While one side waits for a reply it serves the other's requests, so callbacks nest.
    `broken` says why the conversation ended; nothing mends it, so a test cannot pass over it.
    """

    def __init__(self, channel: Channel) -> None:
        self.broken = ""
        self._channel = channel
        self._own: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0
        self._peers: dict[int, Any] = {}

    def request(self, op: str, *operands: Any, **more: Any) -> Message:
        """Ask, and serve the other side until it answers."""
        self.send({"op": op, "a": [self.encode(operand) for operand in operands], **more})
        while True:
            message = self.receive()
            if "op" not in message:
                return message
            self.send(self.answer(message))

    def answer(self, message: Message) -> Message:
        """The reply to a request; an error is a reply, too."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """Send a frame, unless the conversation is over."""
        self.guard(lambda: self._channel.send(message))

    def receive(self) -> Message:
        """Receive a frame, unless the conversation is over."""
        message: Message = self.guard(self._channel.receive)
        return message

    def encode(self, value: Any) -> Any:
        """JSON for a value; a reference for an object that stays here."""
        try:
            return encode(value, self.refer)
        except RecursionError:
            return self.export(value)

    def decode(self, data: Any) -> Any:
        """A value from JSON."""
        return self.guard(lambda: decode(data, self.resolve))

    def refer(self, value: Any) -> Message:
        """A reference to a value that is not plain data."""
        return self.export(value)

    def export(self, value: Any) -> Message:
        """Number one of this side's objects."""
        number = self._numbers.setdefault(id(value), self._next)
        self._next += number == self._next
        self._own[number] = value
        return {"t": "ref", "v": number}

    def forget(self, first: int) -> None:
        """Take back the numbers from `first` on."""
        for number in [number for number in self._own if number >= first]:
            del self._numbers[id(self._own.pop(number))]

    def adopt(self, number: int, data: Message) -> Any:
        """A stand-in for one of the other side's objects."""
        raise NotImplementedError

    def resolve(self, data: Message) -> Any:
        """The object that a reference names."""
        number = data["v"]
        if type(number) is not int:
            raise WireError("not a reference")
        if data["t"] == "yours":
            return self._own[number]
        if data["t"] != "ref":
            raise WireError("not a value: unknown kind")
        if number not in self._peers:
            self._peers[number] = self.adopt(number, data)
        return self._peers[number]

    def guard(self, act: Any) -> Any:
        """Run work that may end the conversation, unless it is over."""
        if self.broken:
            raise WireError(self.broken)
        try:
            return act()
        except WireError as error:
            self.broken = str(error)
            raise
