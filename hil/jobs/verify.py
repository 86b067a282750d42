"""The job of :func:`hil.verify`: models on a board are compared with a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy.typing as npt

from hil.errors import InputError
from hil.jobs.image import Image, ImageModel, recoveries_of, repeated_by
from hil.jobs.job import (
    Job,
    reference_for,
    require_one,
    warn_of_random_inputs,
    warn_unused,
)
from hil.jobs.run import Run
from hil.verify.comparison import Oracle, Report, RunnableModel, compare
from hil.verify.fidelity import FidelityMeter, exact_meter, float_meter
from hil.verify.samples import Sample, StandardSamples, samples_of


@dataclass(frozen=True, eq=False)
class VerifyJob(Job[Report]):
    """Run models on a board and compare every output with a reference.

    The fields are the parameters of :func:`hil.verify`.
    """

    samples: Any = None
    reference: str | Oracle | None = field(default=None, kw_only=True)
    expect: str | Path | Mapping[str, npt.ArrayLike] | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    quantize: bool = field(default=False, kw_only=True)
    per_layer: bool = field(default=False, kw_only=True)
    keep_state: bool = field(default=False, kw_only=True)
    source: str | Path | None = field(default=None, kw_only=True)
    repeated: Callable[..., Any] | None = field(default=None, kw_only=True)
    metrics: bool = field(default=False, kw_only=True)
    float_model: str | Path | None = field(default=None, kw_only=True)
    allow_fallback: bool | None = field(default=None, kw_only=True)
    #: Only the first so many of the samples that are given.
    first: int | None = field(default=None, kw_only=True)

    def is_good(self, result: Report) -> bool:
        """Return whether the model computed what the reference did."""
        return result.match

    def on(self, image: Image, run: Run) -> Iterator[Report]:
        """Yield the report of each model of an image."""
        self._check_models(image, run)
        # All arguments are checked before the build.
        chosen = [self._chosen(model) for model in image.models]
        with image.opened() as opened:
            for known, given, oracle, floats in chosen:
                model = opened[known.name]
                report = compare(
                    model,
                    run.samples(given, known.name, image.board),
                    oracle,
                    board=image.board,
                    per_layer=self.per_layer,
                    keep_state=self.keep_state,
                    repeated=self.repeated or repeated_by(model),
                    meters=self._meters(model, oracle, floats),
                )
                used = self._used(known, given, report.samples)
                made_from = self._provenance(image, known, model, used)
                yield replace(report, provenance=made_from, recoveries=recoveries_of(model))

    def _check(self, run: Run) -> None:
        """Raise for options that exclude each other; warn of those without effect."""
        if self.quantize:
            warn_of_random_inputs(run, "samples", self.samples)
        if not (self.samples is None or isinstance(self.samples, Integral)):
            why = f"{run.option('samples')} states the inputs, and nothing is random"
            warn_unused(run, "seed", self.seed, why)
        if self.expect is None:
            return
        if self.samples is None:
            samples = run.option("samples")
            raise InputError(
                f"{run.option('expect')} is given without {samples}",
                f"give the inputs that belong to it: {samples}",
            )
        for name in ("reference", "source", "per_layer"):
            if getattr(self, name):
                words = run.option(name), run.option("expect")
                raise InputError(
                    f"{words[0]} and {words[1]} are both given", f"drop {words[0]} or {words[1]}"
                )

    def _check_models(self, image: Image, run: Run) -> None:
        """Raise for options that do not suit the number or the kind of models."""
        arrays = None if isinstance(self.samples, Integral) else self.samples
        given = {"samples": arrays, "source": self.source}
        require_one(image, run, given, "verify them one by one")
        modules = [model.module for model in image.models]
        if self.keep_state and not any(m is None or m.states for m in modules):
            names = " and ".join(repr(model.name) for model in image.models)
            option = run.option("keep_state")
            raise InputError(f"{option} is given, and {names} keeps no state", f"drop {option}")

    def _chosen(
        self, known: ImageModel
    ) -> tuple[ImageModel, Iterable[Sample], Oracle, FidelityMeter | None]:
        """Return the samples of a model, its reference, and the meter against ``float_model``."""
        floats = None
        if self.float_model is not None and known.module is not None:
            floats = float_meter(self.float_model, known.module.inputs, known.module.outputs)
        given = samples_of(self.samples, known.inputs, self.seed, quantize=self.quantize)
        if self.first is not None:
            given = self._shortened(given, self.first)
        return known, given, self._oracle(known, given), floats

    def _shortened(self, given: Iterable[Sample], first: int) -> Sequence[Sample]:
        if not isinstance(given, Sequence):
            raise InputError("first is given for samples one by one", "give fewer samples")
        if first > len(given):
            raise InputError(
                f"{self.samples} holds {len(given)} samples, not {first}", "lower the number"
            )
        return given[:first]

    def _oracle(self, known: ImageModel, samples: Any) -> Oracle:
        if self.expect is not None and known.module is not None:
            # Not at the top: references load the compiler.
            from hil.verify.oracle import expected_outputs

            return expected_outputs(self.expect, known.module, len(samples), known.library)
        return reference_for(
            known,
            self.reference,
            self.source,
            self.allow_fallback,
            "give reference=hil.oracle.reference_of(library, module), or expect",
        )

    def _meters(
        self, model: RunnableModel, oracle: Oracle, floats: FidelityMeter | None
    ) -> list[FidelityMeter]:
        meters = []
        if self.metrics:
            meters.append(exact_meter(oracle.name, model.outputs, model.layers))
        if self.float_model is not None:
            meters.append(floats or float_meter(self.float_model, model.inputs, model.outputs))
        return meters

    def _used(self, known: ImageModel, given: Iterable[Sample], count: int) -> Any:
        """Return the samples that a comparison of ``count`` samples used."""
        if self.samples is None:
            return StandardSamples(known.inputs, self.seed, count)
        return given
