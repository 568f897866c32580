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
import symtable
import textwrap
import warnings
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

_MARGIN = re.compile(r"\A(?:[>*+-]\s?)*+(?:\d++[.)])?")
_SHORTEST = 3
_ONE_WORD = re.compile(r"[\w+#.-]*")
_LANGUAGE = re.compile(r"[{.\s]*([\w+#-]*)")


def code_blocks(text: str) -> list[tuple[str, str]]:
    """The language and the body of every fenced block, in order; blank bodies and a last unclosed block included.

    Blocks are CommonMark's, with three exceptions. A fence may end a line of prose or code. A fence with a language
    directly after an opening fence replaces it. A fence with a language inside a block closes it too.
    """
    found: list[_Fenced] = []
    block: _Fenced | None = None
    for line in text.split("\n"):
        fence = _fence(line)
        if block is None:
            block = _opened(fence) if fence is not None else None
        elif fence is None or not block.ends_at(fence):
            block.lines.append(block.dedented(line))
        else:
            if not fence.alone:
                block.lines.append(block.dedented(fence.before))
            found.append(block)
            block = _opened(fence) if block.reopened_by(fence) else None
    if block is not None:
        found.append(block)
    return [(each.language, "\n".join(each.lines)) for each in found]


def without_fences(text: str) -> str:
    """The text without the lines that are fences and nothing else."""
    return "\n".join(line for line in text.split("\n") if not ((fence := _fence(line)) and fence.alone))


@dataclass(frozen=True)
class _Fence:
    """A line that ends in a fence: the text before it, its mark, and the text after it."""

    before: str
    mark: str
    info: str

    @property
    def alone(self) -> bool:
        """Whether only indentation, or the marker of a list or a quotation, comes before it."""
        return _MARGIN.fullmatch(self.before.strip()) is not None

    @property
    def names_a_language(self) -> bool:
        """Whether the text after it can be a language, not a sentence."""
        return bool(self.info) and (_ONE_WORD.fullmatch(self.info) is not None or self.info[0] == "{")


@dataclass
class _Fenced:
    mark: str
    indent: int
    language: str
    lines: list[str] = field(default_factory=list)

    @property
    def blank(self) -> bool:
        return not "".join(self.lines).strip()

    def ends_at(self, fence: _Fence) -> bool:
        same = fence.mark.startswith(self.mark)
        if self.blank and fence.alone:
            return same or bool(fence.info)
        return same and (fence.alone or not fence.info)

    def reopened_by(self, fence: _Fence) -> bool:
        return fence.alone and (fence.names_a_language or (self.blank and bool(fence.info)))

    def dedented(self, line: str) -> str:
        """The line without the indentation of the opening fence."""
        margin = len(line) - len(line.lstrip(" \t"))
        return line[min(margin, self.indent) :]


def _fence(line: str) -> _Fence | None:
    end = max(line.rfind("`"), line.rfind("~")) + 1
    before = line[:end].rstrip(line[end - 1]) if end else ""
    mark = line[len(before) : end]
    if len(mark) < _SHORTEST or mark in before:
        return None
    return _Fence(before, mark, line[end:].strip())


def _opened(fence: _Fence) -> _Fenced | None:
    """The block that a fence opens; None if the fence is inside a line of prose."""
    if not fence.alone and _ONE_WORD.fullmatch(fence.info) is None:
        return None
    language = _LANGUAGE.match(fence.info)
    return _Fenced(fence.mark, len(fence.before) if fence.alone else 0, language[1].lower() if language else "")


_PYTHON = re.compile(r"py(?:thon)?[0-9]*")
_DEFINITION = re.compile(r"^([ \t]*+)(?:async[ \t]++)?(?:def|class)[ \t]++(\w+)", re.MULTILINE)
_START = re.compile(r"^[ \t]*+(?:@|(?:async|class|def|for|from|if|import|try|while|with)\b|[\w.]++(?:\(|[ \t]*+=[^=]))")
_INPUT = re.compile(r"\b(?:input|stdin|open)\b")
_ATTEMPTS = 200
"""Maximum lines of a text without fences at which a program is looked for."""
_CUTS = 10
"""Maximum places at which a program may end that goes over into prose."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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
    chosen = reply.defining(names)
    if not chosen and (fenced.blocks or not names):
        chosen = reply.acting() if reads_input else reply.last()
    if not chosen:
        reply, chosen = fenced, fenced.written()
    if not chosen:
        return plain
    source = "\n\n".join(reply.blocks[place].body for place in sorted(reply.with_needs(chosen)))
    return _without_trials(source, names) if names else source


@dataclass(frozen=True)
class _Block:
    """A block of code in its language, and whether it is whole Python, and acts beside defining.

    defined: the names of functions and classes, with their indentation. binds: the names that a module gets from it.
    needs: the names that it takes from elsewhere.
    """

    body: str
    language: str
    defined: frozenset[tuple[str, str]] = frozenset()
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


@dataclass(frozen=True)
class _Reply:
    """The blocks of a reply. A set of blocks is the set of their places."""

    blocks: Sequence[_Block]

    def defining(self, names: Iterable[str]) -> set[int]:
        """For each name the block that defines it best: the last one that is whole."""
        found = set()
        for name in names:
            ranks = [(block.whole, block.rank(name), place) for place, block in enumerate(self.blocks)]
            found |= {place for _, rank, place in [max(ranks, default=(False, 0, 0))] if rank}
        return found

    def last(self) -> set[int]:
        """The last block that defines something beside tests and that no other block needs."""
        defining = [place for place, block in enumerate(self.blocks) if block.defines]
        whole = [place for place in defining if self.blocks[place].whole] or defining
        needed = {giver for place in whole for giver in self._givers_of(place)}
        return set(([place for place in whole if place not in needed] or whole)[-1:])

    def written(self) -> set[int]:
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

    def with_needs(self, chosen: Iterable[int]) -> set[int]:
        """These blocks, and those that bind what they need."""
        found = set(chosen)
        waiting = list(found)
        while waiting:
            new = self._givers_of(waiting.pop()) - found
            found |= new
            waiting += new
        return found

    def _givers_of(self, place: int) -> set[int]:
        """For each name that a block needs, the last block before it that binds the name, else the first one after."""
        found = set()
        for name in self.blocks[place].needs:
            places = self._givers.get(name, [])
            found |= set(places[max(0, bisect_left(places, place) - 1) :][:1])
        return found

    @cached_property
    def _givers(self) -> Mapping[str, list[int]]:
        givers = defaultdict(list)
        for place, block in enumerate(self.blocks):
            for name in block.binds:
                givers[name].append(place)
        return givers


def _block(body: str, language: str = "") -> _Block:
    source = textwrap.dedent(body)
    defined = frozenset(_DEFINITION.findall(source))
    tree, scopes = _python(source), _scopes(source)
    if scopes is None or not isinstance(tree, ast.Module):
        return _Block(body, language, defined)
    binds = frozenset(each.get_name() for each in scopes.get_symbols() if each.is_assigned() or each.is_imported())
    acts = any(isinstance(part, ast.Call) for each in tree.body if not _defines(each) for part in ast.walk(each))
    needs = _taken(scopes) - binds - set(vars(builtins))
    return _Block(body, language, defined, binds, frozenset(needs), whole=True, acts=acts)


def _python(source: str) -> ast.Module | int:
    """The tree of a program, or of the body of a function; the line of the first error, from 1, if it is none."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about escapes in patterns
            return ast.parse(source)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1


def _scopes(source: str) -> symtable.SymbolTable | None:
    """The names of a program and where they are bound; None if it is none."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return symtable.symtable(source, "reply", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _taken(scopes: symtable.SymbolTable) -> set[str]:
    """The global names that are read in a scope or inside of it."""
    own = {each.get_name() for each in scopes.get_symbols() if each.is_referenced() and each.is_global()}
    return own.union(*map(_taken, scopes.get_children()))


def _defines(statement: ast.stmt) -> bool:
    return isinstance(statement, (*_DEFINITIONS, ast.Import, ast.ImportFrom))


def _unfenced(text: str) -> list[str]:
    """The programs between the lines of prose of a text without fences; the whole text if it is one."""
    if isinstance(_python(textwrap.dedent(text)), ast.Module):
        return [text]
    found, start, lines = [], 0, text.split("\n")
    for _ in range(_ATTEMPTS):
        start = next((at for at in range(start, len(lines)) if _START.match(lines[at])), len(lines))
        program = _program_in(lines[start:])
        found += [program] if program else []
        start += program.count("\n") + 1
    return found


def _program_in(lines: Sequence[str]) -> str:
    """The longest program with which lines of code and then of prose begin; empty if there is none."""
    margins = [len(line) - len(line.lstrip()) if line.strip() else math.inf for line in lines]
    end = next((at for at, margin in enumerate(margins) if margin < margins[0]), len(lines))
    for _ in range(_CUTS):
        source = textwrap.dedent("\n".join(lines[:end]))
        tree = _python(source)
        if isinstance(tree, ast.Module):
            ends = [each.end_lineno for each in tree.body if not _is_prose(each)]
            return "\n".join(source.split("\n")[: ends[-1]]) if ends else ""
        end = next(at for at in range(min(tree, end) - 1, -1, -1) if margins[at] == margins[0])
    return ""


def _is_prose(statement: ast.stmt) -> bool:
    """Whether a statement may be a line of prose, such as "Done", "Yes, indeed" or "Note: simple"."""
    if isinstance(statement, ast.Expr):
        return not any(isinstance(part, ast.Call) for part in ast.walk(statement))
    return isinstance(statement, ast.AnnAssign) and statement.value is None


def _without_trials(source: str, names: Collection[str]) -> str:
    """The program without the module's statements that only try what was asked: example calls, asserts, reading."""
    tree, scopes = _python(source), _scopes(source)
    if scopes is None or not isinstance(tree, ast.Module):
        return source
    used = {*names}.union(*map(_taken, scopes.get_children()))
    parts = {each: _Part.of(each) for each in tree.body}
    needed = {each for each, part in parts.items() if part.binds & used and not _defines(each)}
    tried, trials = {*names, "input", "stdin", "__name__"}, set[ast.stmt]()
    while new := {each for each in {*parts} - needed - trials if parts[each].mentions & tried}:
        trials |= new
        tried = tried.union(*(parts[each].binds for each in new))
    gone = {
        line
        for each in parts
        if isinstance(each, ast.Assert) or (each in trials and not _defines(each))
        for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)
    }
    kept = [line for number, line in enumerate(source.split("\n"), start=1) if number not in gone]
    return "\n".join(kept).strip("\n") if gone else source


@dataclass(frozen=True)
class _Part:
    """The names that a statement binds, and the names, attributes and definitions in it."""

    binds: frozenset[str]
    mentions: frozenset[str]

    @classmethod
    def of(cls, statement: ast.stmt) -> _Part:
        nodes = list(ast.walk(statement))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        defined = {node.name for node in nodes if isinstance(node, _DEFINITIONS)}
        attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        bound = (
            {statement.name}
            if isinstance(statement, _DEFINITIONS)
            else {node.id for node in names if isinstance(node.ctx, ast.Store)} | defined
        )
        return cls(frozenset(bound), frozenset(defined | attributes | {node.id for node in names}))
