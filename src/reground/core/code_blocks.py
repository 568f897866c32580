"""Code in a reply: the blocks in Markdown as models write it, and the program that was asked for among them.

Models double fences, put them within a line, and leave blocks open. They also show blocks that only try the program.
Papers "convert the outputs into a form that can be executed" (RAT, section 3.1); EvalPlus (Liu et al. 2023) chooses by
the name of the function as well.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
import textwrap
import warnings
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_MARGIN = re.compile(r"\A(?:[>*+-]\s?)*+(?:\d++[.)])?")
_SHORTEST = 3
_ONE_WORD = re.compile(r"[\w+#.-]*")
_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")


def code_blocks(text: str, *, closed: bool = False) -> list[tuple[str, str]]:
    """The language and the body of every fenced block, in order; blank bodies and a last unclosed block included.

    Blocks are CommonMark's, with three exceptions. A fence may end a line of prose or code. A fence with a language
    directly after an opening fence replaces it. A fence with a language inside a block closes it too.

    closed: leaves out a last block without its end.
    """
    blocks: list[tuple[str, list[str]]] = []
    mark, indent, blank = "", 0, True  # of the block that is open, if the mark is not empty
    for line in text.split("\n"):
        fence = _fence(line)
        if mark and (fence is None or not fence.ends(mark, blank=blank)):
            blocks[-1][1].append(_dedented(line, indent))
            blank = blank and not line.strip()
            continue
        if fence is None:
            continue
        if mark and not fence.alone:
            blocks[-1][1].append(_dedented(fence.before, indent))
        if mark:
            opens = fence.alone and (fence.names_a_language or (blank and fence.info != ""))
        else:
            opens = fence.alone or _ONE_WORD.fullmatch(fence.info) is not None
        mark = fence.mark if opens else ""
        if opens:
            language = _LANGUAGE.match(fence.info)
            blocks.append((language[1].lower() if language else "", []))
            indent, blank = len(fence.before) if fence.alone else 0, True
    if closed and mark:
        blocks.pop()
    return [(language, "\n".join(lines)) for language, lines in blocks]


def _dedented(line: str, indent: int) -> str:
    """The line without the indentation of the opening fence."""
    margin = len(line) - len(line.lstrip(" \t"))
    return line[min(margin, indent) :]


def without_fences(text: str) -> str:
    """The text without the lines that are fences and nothing else."""
    return "\n".join(line for line in text.split("\n") if not ((fence := _fence(line)) and fence.alone))


class _Fence(NamedTuple):
    """A line that ends in a fence: the text before it, its mark, and the text after it.

    alone: whether only indentation, or the marker of a list or a quotation, comes before it.
    """

    before: str
    mark: str
    info: str
    alone: bool

    @property
    def names_a_language(self) -> bool:
        """Whether the text after it can be a language, not a sentence."""
        return bool(self.info) and (_ONE_WORD.fullmatch(self.info) is not None or self.info[0] == "{")

    def ends(self, mark: str, *, blank: bool) -> bool:
        """Whether it ends a block with this mark. blank: whether the block holds nothing so far."""
        same = self.mark.startswith(mark)
        if blank and self.alone:
            return same or bool(self.info)
        return same and (self.alone or not self.info)


def _fence(line: str) -> _Fence | None:
    end = max(line.rfind("`"), line.rfind("~")) + 1
    before = line[:end].rstrip(line[end - 1]) if end else ""
    mark = line[len(before) : end]
    if len(mark) < _SHORTEST or mark in before:
        return None
    return _Fence(before, mark, line[end:].strip(), _MARGIN.fullmatch(before.strip()) is not None)


_PYTHON = re.compile(r"py(?:thon)?[0-9]*")
_DEFINITION = re.compile(r"^([ \t]*+)(?:async[ \t]++)?(?:def|class)[ \t]++(\w+)", re.MULTILINE)
_START = re.compile(r"^[ \t]*+(?:@|(?:async|class|def|for|from|if|import|try|while|with)\b|[\w.]++(?:\(|[ \t]*+=[^=]))")
_INPUT = re.compile(r"\b(?:input|stdin|open)\b")
_ATTEMPTS = 200  # maximum lines of a text without fences at which a program is looked for
_CUTS = 10  # maximum places at which a program may end that goes over into prose
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def extract_program(text: str, names: Collection[str] = (), *, reads_input: bool = False) -> str:
    """The last program in a reply, with the imports and helpers that it takes from other blocks, in their order.

    Where there are `names`, it is the last one that defines them, and calls, asserts and reading of input that only try
    them are left out of it. Otherwise it is the last block that defines something and that no other block needs, or, if
    it `reads_input`, the last one that reads and acts. A block that is no whole Python, because the reply was cut,
    counts only where no other does. A reply without any definition is its last non-empty Python block, else its last
    block, else the whole text.
    """
    plain = without_fences(text).strip("\n")
    fenced = _Reply([_block(body.strip("\r\n"), language) for language, body in code_blocks(text) if body.strip()])
    defines = reads_input or any(block.defined for block in fenced.blocks)
    reply = fenced if fenced.blocks and defines else _Reply(list(map(_block, _unfenced(plain))))
    places = reply.defining(names)
    if not places and (fenced.blocks or not names):
        places = reply.acting() if reads_input else reply.last()
    if not places:
        reply, places = fenced, fenced.fallback()
    if not places:
        return plain
    source = "\n\n".join(reply.blocks[place].body for place in sorted(reply.with_needs(places)))
    return _without_trials(source, names) if names else source


@dataclass(frozen=True)
class _Block:
    """A block of code in its language, and whether it is whole Python, and acts beside defining.

    defined: the names of functions and classes, with their indentation. binds: the names that a module gets from it.
    needs: the names that it takes from elsewhere.
    """

    body: str
    language: str
    defined: frozenset[tuple[str, str]]
    binds: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    whole: bool = False
    acts: bool = False

    @property
    def defines(self) -> bool:
        """Whether it defines a function or class that unittest and pytest take for no test."""
        return any(not margin and not name.lower().startswith("test") for margin, name in self.defined)

    def rank(self, name: str) -> int:
        """How firmly it defines a name: as a function or class 3, as a value 2, inside of a class 1, not at all 0."""
        if ("", name) in self.defined:
            return 3
        return 2 if name in self.binds else int(any(name == own for _, own in self.defined))


class _Reply:
    """The blocks of a reply. A set of blocks is the set of their places."""

    def __init__(self, blocks: Sequence[_Block]) -> None:
        self.blocks = blocks
        self._givers: dict[str, list[int]] = defaultdict(list)
        for place, block in enumerate(blocks):
            for name in block.binds:
                self._givers[name].append(place)

    def defining(self, names: Iterable[str]) -> set[int]:
        """For each name the block that defines it best: the last one that is whole."""
        ranks = (
            max(
                ((block.whole, block.rank(name), place) for place, block in enumerate(self.blocks)),
                default=(False, 0, 0),
            )
            for name in names
        )
        return {place for _, rank, place in ranks if rank}

    def last(self) -> set[int]:
        """The last block that defines something beside tests and that no other block needs."""
        defining = [place for place, block in enumerate(self.blocks) if block.defines]
        whole = [place for place in defining if self.blocks[place].whole] or defining
        needed = {giver for place in whole for giver in self._givers_of(place)}
        return set(([place for place in whole if place not in needed] or whole)[-1:])

    def fallback(self) -> set[int]:
        """The last block that calls itself Python, else the last block."""
        python = [place for place, block in enumerate(self.blocks) if _PYTHON.fullmatch(block.language)]
        return set((python or range(len(self.blocks)))[-1:])

    def acting(self) -> set[int]:
        """The last block that acts and reads its input, by itself or in what it needs; else the last that acts."""
        acting = [place for place, block in enumerate(self.blocks) if block.acts]
        reading = {place for place, block in enumerate(self.blocks) if _INPUT.search(block.body)}
        programs = reading.intersection(acting)
        for place in reversed(acting):
            needs = self.with_needs({place})
            if place in programs or (needs & reading and not needs & programs):
                return {place}
        return set(acting[-1:]) or self.last()

    def with_needs(self, places: Iterable[int]) -> set[int]:
        """These blocks, and those that bind what they need."""
        result = set(places)
        waiting = list(result)
        while waiting:
            new = self._givers_of(waiting.pop()) - result
            result |= new
            waiting += new
        return result

    def _givers_of(self, place: int) -> set[int]:
        """For each name that a block needs, the last block before it that binds the name, else the first one after."""
        givers = set()
        for name in self.blocks[place].needs & self._givers.keys():
            places = self._givers[name]
            givers.add(places[max(0, bisect_left(places, place) - 1)])
        return givers


def _block(body: str, language: str = "") -> _Block:
    source = textwrap.dedent(body)
    defined = frozenset(_DEFINITION.findall(source))
    tree = parsed(source)
    if not isinstance(tree, ast.Module):
        return _Block(body, language, defined)
    parts = list(map(_part, tree.body))
    binds = frozenset[str]().union(*(part.binds for part in parts))
    needs = frozenset[str]().union(*(part.takes for part in parts)) - binds - set(vars(builtins))
    return _Block(body, language, defined, binds, needs, whole=True, acts=any(part.acts for part in parts))


class _Part(NamedTuple):
    """A statement of a program, and whether it is an import or a definition, or acts.

    binds: the names that the module gets from it. takes: the names that it reads and does not bind itself. mentions:
    the names, attributes and definitions in it.
    """

    statement: ast.stmt
    defines: bool
    acts: bool
    binds: frozenset[str]
    takes: frozenset[str]
    mentions: frozenset[str]


def _part(statement: ast.stmt) -> _Part:
    read, bound, inner, attributes = set(), set(), set(), set()
    calls = False
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.arg(arg=name):
                inner.add(name)
            case ast.Attribute(attr=name):
                attributes.add(name)
            case ast.Call():
                calls = True
    is_definition = isinstance(statement, _DEFINITIONS)
    defines = is_definition or isinstance(statement, _IMPORTS)
    mentions = read | attributes | (set() if isinstance(statement, _IMPORTS) else bound)
    binds = {statement.name} if isinstance(statement, _DEFINITIONS) else bound
    return _Part(statement, defines, calls and not defines, *map(frozenset, (binds, read - bound - inner, mentions)))


def parsed(source: str) -> ast.Module | int:
    """The tree of a program, or of the body of a function; the line of the first error, from 1, if it is none."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about escapes in patterns
            return ast.parse(source)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return 1


def _unfenced(text: str) -> list[str]:
    """The programs between the lines of prose of a text without fences; the whole text if it is one."""
    if isinstance(parsed(textwrap.dedent(text)), ast.Module):
        return [text]
    programs, start, lines = [], 0, text.split("\n")
    for _ in range(_ATTEMPTS):
        start = next((at for at in range(start, len(lines)) if _START.match(lines[at])), len(lines))
        program = _program_in(lines[start:])
        programs += [program] if program else []
        start += program.count("\n") + 1
    return programs


def _program_in(lines: Sequence[str]) -> str:
    """The longest program with which lines of code and then of prose begin; empty if there is none."""
    margins = [len(line) - len(line.lstrip()) if line.strip() else math.inf for line in lines]
    end = next((at for at, margin in enumerate(margins) if margin < margins[0]), len(lines))
    for _ in range(_CUTS):
        source = textwrap.dedent("\n".join(lines[:end]))
        tree = parsed(source)
        if isinstance(tree, ast.Module):
            ends = [each.end_lineno for each in tree.body if not _is_prose(each)]
            return "\n".join(source.split("\n")[: ends[-1]]) if ends else ""
        end = next(at for at in range(min(tree, end) - 1, -1, -1) if margins[at] == margins[0])
    return ""


def _is_prose(statement: ast.stmt) -> bool:
    """Whether a statement may be a line of prose, such as "Done", "Yes, indeed" or "Note: simple"."""
    if isinstance(statement, ast.Expr):
        return not _part(statement).acts
    return isinstance(statement, ast.AnnAssign) and statement.value is None


def _without_trials(source: str, names: Collection[str]) -> str:
    """The program without the module's statements that only try what was asked: example calls, asserts, reading."""
    tree = parsed(source)
    parts = list(map(_part, tree.body)) if isinstance(tree, ast.Module) else []
    names_used = {*names}.union(*(part.takes for part in parts if part.defines or part.binds.intersection(names)))
    needed = {at for at, part in enumerate(parts) if part.binds & names_used and not part.defines}
    targets, trials = {*names, "input", "stdin", "__name__"}, set[int]()
    while new := {at for at in {*range(len(parts))} - needed - trials if parts[at].mentions & targets}:
        trials |= new
        targets = targets.union(*(parts[at].binds for at in new))
    dropped = {
        line
        for at, part in enumerate(parts)
        if isinstance(part.statement, ast.Assert) or (at in trials and not part.defines)
        for line in range(part.statement.lineno, (part.statement.end_lineno or part.statement.lineno) + 1)
    }
    lines = [line for number, line in enumerate(source.split("\n"), start=1) if number not in dropped]
    return "\n".join(lines).strip("\n") if dropped else source
