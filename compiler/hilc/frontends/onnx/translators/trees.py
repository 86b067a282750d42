"""Ensembles of decision trees, of ONNX's domain ``ai.onnx.ml``: forests and boosted trees.

Every comparison becomes "at most": floats have a next smaller one, and the branches change places.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.arithmetic import divide
from hilc.frontends.onnx.translators.classical import ML, labelled, real, transformed
from hilc.ir import Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.tree_ensemble import LAST, MORE, MOST_FEATURES, TreeEnsembleAttributes

#: Comparisons by their numbers in TreeEnsemble.
_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MOST = np.iinfo(np.int16).max


@dataclass(frozen=True)
class _Branch:
    """A comparison of a feature, and the keys of the nodes that follow."""

    feature: int
    mode: str
    #: Operands of the comparison; several for MEMBER.
    values: tuple[float, ...]
    #: Whether NaN takes the branch of a true comparison.
    tracks_true: bool
    true: Hashable
    false: Hashable


#: Entries of a leaf: targets, and their addends.
_Leaf = tuple[tuple[int, float], ...]
_Nodes = Mapping[Hashable, "_Branch | _Leaf"]


def _below(value: float) -> float:
    """Return the largest float32 below one; NaN where there is none."""
    if value == -np.inf:
        return float("nan")
    return float(np.nextafter(np.float32(value), np.float32(-np.inf)))


@dataclass
class _Tables:
    """The constants of TREE_ENSEMBLE under construction."""

    n: Operation
    nodes: _Nodes
    values: list[float] = field(default_factory=list)
    tests: list[int] = field(default_factory=list)
    nexts: list[int] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    _placed: set[Hashable] = field(default_factory=set)

    def add_tree(self, root: Hashable) -> None:
        """Add the nodes of a tree in depth-first order."""
        self.roots.append(len(self.tests))
        # Nodes that wait, each with the places that name it as their next.
        waiting: list[tuple[Hashable, list[int]]] = [(root, [])]
        while waiting:
            key, named_by = waiting.pop()
            if key in self._placed or key not in self.nodes:
                self.n.invalid(
                    f"has a tree where node {key} is "
                    + ("reached twice" if key in self._placed else "missing")
                )
            self._placed.add(key)
            for place in named_by:
                self.nexts[place] = self._offset(place)
            node = self.nodes[key]
            if isinstance(node, _Branch):
                waiting.extend(self._branch(node))
            else:
                self._leaf(node)

    def _offset(self, place: int) -> int:
        offset = len(self.tests) - place
        if offset > _MOST:
            self.n.refuse(
                f"has a branch over {offset} nodes", f"up to {_MOST} are supported: train less deep"
            )
        return offset

    def _row(self, value: float, test: int, next_: int) -> int:
        self.values.append(value)
        self.tests.append(test)
        self.nexts.append(next_)
        return len(self.tests) - 1

    def _leaf(self, entries: _Leaf) -> None:
        # A sum is never -0: adding a zero changes nothing.
        kept = [entry for entry in entries if entry[1] != 0] or [(0, 0.0)]
        for i, (target, value) in enumerate(kept):
            self._row(value, MORE if i + 1 < len(kept) else LAST, target)

    def _branch(self, branch: _Branch) -> list[tuple[Hashable, list[int]]]:
        """Add a comparison; return the nodes behind it, the one that follows directly last."""
        match branch.mode:
            case "LEQ" | "LT":
                value = branch.values[0] if branch.mode == "LEQ" else _below(branch.values[0])
                place = self._row(value, 2 * branch.feature + branch.tracks_true, 0)
                return [(branch.false, [place]), (branch.true, [])]
            case "GT" | "GTE":
                value = branch.values[0] if branch.mode == "GT" else _below(branch.values[0])
                place = self._row(value, 2 * branch.feature + (not branch.tracks_true), 0)
                return [(branch.true, [place]), (branch.false, [])]
            case "NEQ":
                equal = replace(
                    branch, mode="EQ", tracks_true=not branch.tracks_true,
                    true=branch.false, false=branch.true,
                )  # fmt: skip
                return self._branch(equal)
        return self._members(branch)

    def _members(self, branch: _Branch) -> list[tuple[Hashable, list[int]]]:
        """Add a comparison with each value: at most it, and not at most the one below it."""
        hits = []
        for i, value in enumerate(branch.values):
            # What is no number is said to be the last member, or none.
            tracks = branch.tracks_true and i + 1 == len(branch.values)
            above = self._row(value, 2 * branch.feature + tracks, 2)
            hits.append(self._row(_below(value), 2 * branch.feature, 0))
        return [(branch.true, hits), (branch.false, [above])]


def _checked(n: Operation, branch: _Branch, features: int) -> _Branch:
    if not 0 <= branch.feature < features:
        n.invalid(f"compares feature {branch.feature} of {features}")
    if branch.mode not in _MODES:
        n.invalid(f"has the mode {branch.mode!r} (accepted: {', '.join(_MODES)})")
    if not branch.values or any(np.isnan(value) for value in branch.values):
        n.invalid(f"compares with {list(branch.values)}", "numbers are accepted")
    return branch


def _sums(
    n: Operation, x: Tensor, nodes: _Nodes, roots: Sequence[Hashable], targets: int
) -> Tensor:
    """Return the sums over trees of ``[rows, features]``: ``[rows, targets]``."""
    if x.shape[1] > MOST_FEATURES:
        n.refuse(f"takes {x.shape[1]} features", f"up to {MOST_FEATURES} are supported")
    if not roots:
        n.invalid("has no tree")
    for node in nodes.values():
        if isinstance(node, _Branch):
            _checked(n, node, x.shape[1])
        elif any(not 0 <= target < targets for target, _ in node):
            n.invalid(f"adds to the targets {[target for target, _ in node]} of {targets}")
    tables = _Tables(n, nodes)
    for root in roots:
        tables.add_tree(root)
    constants = (
        n.constant(values, dtype)
        for values, dtype in (
            (tables.values, "float32"),
            (tables.tests, "int16"),
            (tables.nexts, "int16"),
            (tables.roots, "int32"),
        )
    )
    return n.emit("TREE_ENSEMBLE", x, *constants, attrs=TreeEnsembleAttributes(targets=targets))


# Since the first version: TreeEnsembleClassifier and TreeEnsembleRegressor ------------------------


def _listed(n: Operation, name: str) -> tuple[float, ...]:
    """Return numbers that an attribute lists, or the one that holds them as a tensor."""
    tensor = n.array(f"{name}_as_tensor")
    if tensor is None:
        return n.numbers(name, ())
    if tensor.dtype != np.float32:
        n.refuse(f"holds {name} as {tensor.dtype}", "export it in float32")
    return tuple(map(float, tensor.reshape(-1)))


def _old_nodes(n: Operation, kind: str) -> tuple[_Nodes, list[Hashable]]:
    """Return the nodes by tree and number, and the roots; ``kind`` names the attributes of leaves:
    class or target.
    """
    keys = _pairs(n, "nodes_treeids", "nodes_nodeids")
    columns: dict[str, Sequence[Any]] = {
        "nodes_featureids": n.integers("nodes_featureids"),
        "nodes_modes": n.texts("nodes_modes"),
        "nodes_values": _listed(n, "nodes_values"),
        "nodes_truenodeids": n.integers("nodes_truenodeids"),
        "nodes_falsenodeids": n.integers("nodes_falsenodeids"),
        "nodes_missing_value_tracks_true": n.integers("nodes_missing_value_tracks_true", ())
        or (0,) * len(keys),
    }
    for name, column in columns.items():
        if len(column) != len(keys):
            n.invalid(f"has {len(column)} {name} for {len(keys)} nodes")
    nodes: dict[Hashable, _Branch | _Leaf] = {}
    for (tree, number), feature, mode, value, true, false, tracks in zip(
        keys, *columns.values(), strict=True
    ):
        if (tree, number) in nodes:
            n.invalid(f"has two nodes {number} in tree {tree}")
        nodes[tree, number] = (
            ()
            if mode == "LEAF"
            else _Branch(
                feature, mode.removeprefix("BRANCH_"), (value,), bool(tracks),
                (tree, true), (tree, false),
            )
        )  # fmt: skip
    ids, weights = n.integers(f"{kind}_ids"), _listed(n, f"{kind}_weights")
    places = _pairs(n, f"{kind}_treeids", f"{kind}_nodeids")
    if not len(ids) == len(weights) == len(places):
        n.invalid(f"has {len(ids)} {kind}_ids, {len(weights)} weights and {len(places)} nodes")
    for key, target, weight in zip(places, ids, weights, strict=True):
        leaf = nodes.get(key)
        # Weights of a branch are never added.
        if leaf is None:
            n.invalid(f"has weights of node {key[1]} of tree {key[0]}, which it lacks")
        if not isinstance(leaf, _Branch):
            nodes[key] = (*leaf, (target, weight))
    first = {tree: number for tree, number in reversed(keys)}
    return nodes, [(tree, first[tree]) for tree in sorted(first)]


def _pairs(n: Operation, trees: str, numbers: str) -> list[tuple[int, int]]:
    both = n.integers(trees), n.integers(numbers)
    if len(both[0]) != len(both[1]):
        n.invalid(f"has {len(both[0])} {trees} and {len(both[1])} {numbers}")
    return list(zip(*both, strict=True))


def _with_base(n: Operation, sums: Tensor) -> Tensor:
    base = _listed(n, "base_values")
    if not base:
        return sums
    if len(base) not in (1, sums.shape[1]):
        n.invalid(f"has {len(base)} base_values for {sums.shape[1]} sums")
    return n.emit("ADD", sums, n.constant(base, "float32"), attrs=ActivationAttributes())


@translates("TreeEnsembleRegressor", domain=ML)
def regressor(n: Operation) -> Tensor:
    """Translate ai.onnx.ml TreeEnsembleRegressor to TREE_ENSEMBLE and its aggregation."""
    nodes, roots = _old_nodes(n, "target")
    sums = _sums(n, real(n), nodes, roots, n.integer("n_targets", 1))
    aggregate = n.text("aggregate_function", "SUM")
    return transformed(n, _with_base(n, _aggregated(n, sums, aggregate, len(roots))))


def _aggregated(n: Operation, sums: Tensor, aggregate: str, trees: int) -> Tensor:
    if aggregate == "AVERAGE":
        return divide(n, sums, n.constant(trees, "float32"))
    if aggregate != "SUM":
        n.refuse(f"aggregates by {aggregate}", "supported are SUM and AVERAGE")
    return sums


@translates("TreeEnsembleClassifier", domain=ML)
def classifier(n: Operation) -> list[Tensor | None]:
    """Return labels and scores. Where all leaves add to one class of two, the other one's score
    follows from it.
    """
    nodes, roots = _old_nodes(n, "class")
    names, labels = n.texts("classlabels_strings", ()), n.integers("classlabels_int64s", ())
    classes = len(names) or len(labels)
    used = set(n.integers("class_ids"))
    if len(used) > 1 or classes != 2:
        if classes < 2:
            n.refuse(f"has {classes} labels", "state two labels or more")
        scores = transformed(n, _with_base(n, _sums(n, real(n), nodes, roots, classes)))
        return [None if names else labelled(n, scores, labels), scores]
    one: _Nodes = {
        key: node if isinstance(node, _Branch) else tuple((0, weight) for _, weight in node)
        for key, node in nodes.items()
    }
    score = _with_base(n, _sums(n, real(n), one, roots, 1))
    weights = _listed(n, "class_weights")
    if n.text("post_transform", "NONE") == "NONE":
        if min(weights, default=0.0) < 0:
            n.refuse(
                "has one score of two classes, which may be negative, and no transformation",
                "runtimes differ in what the other score is then; export it with LOGISTIC",
            )
        other = n.emit("SUB", n.constant(1, "float32"), score, attrs=ActivationAttributes())
    else:
        other = n.emit("NEG", score)
    both = n.emit("CONCATENATION", other, score, attrs=ConcatenationAttributes(axis=1))
    scores = transformed(n, both)
    return [None if names else labelled(n, scores, labels), scores]


# Since version 5: TreeEnsemble --------------------------------------------------------------------


@translates("TreeEnsemble", domain=ML)
def ensemble(n: Operation) -> Tensor:
    """Translate ai.onnx.ml TreeEnsemble (opset 5+) to TREE_ENSEMBLE and its aggregation."""
    nodes, roots = _new_nodes(n)
    sums = _sums(n, real(n), nodes, roots, n.integer("n_targets", 1))
    aggregate = _one_of(n, "aggregate_function", _AGGREGATES, 1)
    transform = _one_of(n, "post_transform", _TRANSFORMS, 0)
    return transformed(n, _aggregated(n, sums, aggregate, len(roots)), transform)


def _one_of(n: Operation, name: str, meanings: Sequence[str], default: int) -> str:
    number = n.integer(name, default)
    if not 0 <= number < len(meanings):
        n.invalid(f"has {name} {number}", f"accepted: 0 to {len(meanings) - 1}")
    return meanings[number]


def _array(n: Operation, name: str) -> list[Any]:
    value = n.array(name)
    if value is None:
        n.invalid(f"lacks its attribute {name!r}")
    if value.dtype == np.float64:
        n.refuse(f"holds {name} as float64", "export it in float32")
    listed: list[Any] = value.reshape(-1).tolist()
    return listed


def _new_nodes(n: Operation) -> tuple[_Nodes, list[Hashable]]:
    """Return branches under their numbers, leaves under theirs behind a mark, and the roots."""
    modes, splits = _array(n, "nodes_modes"), _array(n, "nodes_splits")
    features = n.integers("nodes_featureids")
    sides = [
        (n.integers(f"nodes_{side}nodeids"), n.integers(f"nodes_{side}leafs"))
        for side in ("true", "false")
    ]
    tracks = n.integers("nodes_missing_value_tracks_true", ()) or (0,) * len(modes)
    targets, weights = n.integers("leaf_targetids"), _array(n, "leaf_weights")
    columns = (modes, splits, features, tracks, *chain(*sides))
    if len({len(column) for column in columns}) != 1 or len(targets) != len(weights):
        n.invalid("lists attributes of different lengths")
    members = _sets(n, modes)
    nodes: dict[Hashable, _Branch | _Leaf] = {
        ("leaf", i): ((target, weight),)
        for i, (target, weight) in enumerate(zip(targets, weights, strict=True))
    }
    followers = [
        [("leaf", key) if is_leaf else key for key, is_leaf in zip(*side, strict=True)]
        for side in sides
    ]
    for i, code in enumerate(modes):
        if not 0 <= code < len(_MODES):
            n.invalid(f"has the mode {code}", f"accepted: 0 to {len(_MODES) - 1}")
        mode = _MODES[code]
        values = next(members) if mode == "MEMBER" else (splits[i],)
        # What is no number differs from every number.
        follows = bool(tracks[i]) or mode == "NEQ"
        nodes[i] = _Branch(features[i], mode, values, follows, followers[0][i], followers[1][i])
    roots = n.integers("tree_roots")
    if any(not 0 <= root < len(modes) for root in roots):
        n.invalid(f"has the tree_roots {list(roots)} of {len(modes)} nodes")
    # A tree of a leaf alone is a branch both of whose sides are that leaf.
    same = [followers[0][root] == followers[1][root] for root in roots]
    return nodes, [followers[0][root] if is_leaf else root
                   for root, is_leaf in zip(roots, same, strict=True)]  # fmt: skip


def _sets(n: Operation, modes: Sequence[int]) -> Any:
    """Yield the members of each set; NaN ends one."""
    count = modes.count(_MODES.index("MEMBER"))
    listed = _array(n, "membership_values") if count else []
    ends = [-1, *(i for i, value in enumerate(listed) if np.isnan(value))]
    if len(ends) - 1 != count:
        n.invalid(f"lists {len(ends) - 1} sets for {count} nodes of mode MEMBER")
    return iter(tuple(listed[a + 1 : b]) for a, b in pairwise(ends))
