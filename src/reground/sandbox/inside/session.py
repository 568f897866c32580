"""A conversation over a channel: each side asks the other to act on objects that stay where they are."""

from __future__ import annotations

from typing import Any

from .wire import Channel, WireError, decode, describe, encode

Message = dict[str, Any]


class Session:
    """Requests, replies, and the tables of objects that they name.

    While one side waits for a reply it serves the requests of the other, so callbacks nest.
    `broken` says why the conversation ended; nothing mends it, so a test cannot pass over it.
    """

    def __init__(self, channel: Channel) -> None:
        self.broken = ""
        self._channel = channel
        self._own: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
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
        """The reply to a request; what goes wrong is a reply too."""
        try:
            operands = [self.decode(operand) for operand in message["a"]]
            return self.perform(str(message["op"]), operands, message)
        except WireError:
            raise
        except BaseException as error:
            return {"err": describe(error, "program.py")}

    def perform(self, op: str, operands: list[Any], message: Message) -> Message:
        """Do what a request asks for."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """Send a frame, unless the conversation is over."""
        self._guard(lambda: self._channel.send(message))

    def receive(self) -> Message:
        """Receive a frame, unless the conversation is over."""
        message: Message = self._guard(self._channel.receive)
        return message

    def encode(self, value: Any) -> Any:
        """JSON for a value; a reference where it has to stay."""
        try:
            return encode(value, self.refer)
        except RecursionError:
            return self.export(value)

    def decode(self, data: Any) -> Any:
        """A value from JSON."""
        return self._guard(lambda: decode(data, self._resolve))

    def refer(self, value: Any) -> Message:
        """A reference to a value that is no plain data."""
        return self.export(value)

    def export(self, value: Any) -> Message:
        """Number one of our own objects."""
        number = self._numbers.setdefault(id(value), len(self._numbers))
        self._own[number] = value
        return {"t": "ref", "v": number}

    def adopt(self, number: int, data: Message) -> Any:
        """A stand-in for one of the other side's objects."""
        raise NotImplementedError

    def _resolve(self, data: Message) -> Any:
        number = data["v"]
        if not isinstance(number, int):
            raise WireError("not a reference")
        if data["t"] == "yours":
            return self._own[number]
        if data["t"] != "ref":
            raise WireError("not a value: unknown kind")
        if number not in self._peers:
            self._peers[number] = self.adopt(number, data)
        return self._peers[number]

    def _guard(self, act: Any) -> Any:
        if self.broken:
            raise WireError(self.broken)
        try:
            return act()
        except WireError as error:
            self.broken = str(error)
            raise
