"""A job: models, a board, and what is done with them there, as one value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hil.board import Board
from hil.device import Device, Model
from hil.device.route import Route
from hil.device.session import DeviceKeywords
from hil.errors import InputError
from hil.jobs.image import Image, ImageModel, one_model, opened_image
from hil.jobs.run import Run
from hil.results.parts import Provenance
from hil.support.scope import one_command
from hilc.options import RENAMED
from hilc.support.arguments import check_fields
from hilc.support.option import check_keywords

if TYPE_CHECKING:
    from hil.verify.comparison import Oracle, RunnableModel

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Job(ABC, Generic[R]):
    """What is done with models on a board; each kind of job is a class.

    A job is a value: nothing is read, compiled or started before :meth:`run`. It can be pickled
    unless it holds something that cannot, such as a model or a device that is open.
    """

    #: A model as :func:`hil.verify` takes it; several in a list share one image.
    model: Any
    #: A name, a description, a selector of a lab, or an open device; none for a model that runs.
    board: str | Path | Board | Device | None = field(default=None, kw_only=True)
    #: Options of :func:`hil.open` and of the compiler, by their names.
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    #: Name of the only model; by default that of its file.
    name: str | None = field(default=None, kw_only=True)
    #: Example arguments of a PyTorch module.
    example: Any = field(default=None, kw_only=True)
    #: What was called, for provenance; by default this job.
    command: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        check_fields(self)
        check_keywords(
            f"hil.{type(self).__name__}", self.options, DeviceKeywords.__annotations__, RENAMED
        )

    @property
    def models(self) -> tuple[Any, ...]:
        """The models of the image."""
        return tuple(self.model) if isinstance(self.model, list | tuple) else (self.model,)

    def run(self, run: Run | None = None) -> list[R]:
        """Run the job; return a result for each model of the image, in their order.

        Raise :class:`~hil.errors.InputError` for what the job states, and
        :class:`~hil.errors.HilError` where it fails. A wrong result raises nothing.
        """
        with one_command():
            return list(self.results(run or Run()))

    def run_one(self) -> R:
        """Run the job of one model; return its result. Raise :class:`~hil.errors.InputError` if the
        library has several, otherwise as :meth:`run` does.
        """
        with one_command(), self._image(Run()) as image:
            image.only(one_model)
            (result,) = self.on(image, Run())
            return result

    def results(self, run: Run) -> Iterator[R]:
        """Run the job; yield the result of each model as soon as it is known."""
        with self._image(run) as image:
            yield from self.on(image, run)

    @abstractmethod
    def on(self, image: Image, run: Run) -> Iterator[R]:
        """Yield the result of each model of an image, which was opened for this job or for another
        one with the same models, board and options.
        """

    @abstractmethod
    def is_good(self, result: R) -> bool:
        """Return whether a result is right, and within its limits."""

    def _image(self, run: Run) -> AbstractContextManager[Image]:
        """Return the context of the job's image; raise for options that exclude each other."""
        self._check(run)
        return opened_image(
            self.models,
            self.board,
            self.options,
            run,
            name=self.name,
            example=self.example,
            compared_with=self._compared_with(),
            check=lambda route: self._check_route(route, run),
        )

    def _check(self, run: Run) -> None:
        """Raise for options that exclude each other, before anything is read."""

    def _compared_with(self) -> str | None:
        """Return the arithmetic that the job's reference computes with, for the compiler."""
        reference = getattr(self, "reference", None)
        if not isinstance(reference, str):
            return None
        # Not at the top: a build compares nothing, and references load the compiler.
        from hil.verify.oracle import definition_of

        return definition_of(reference)

    def _check_route(self, route: Route, run: Run) -> None:
        """Raise for a board that the job cannot use, before anything is compiled for it."""

    def _provenance(
        self, image: Image, known: ImageModel, model: RunnableModel, samples: Any
    ) -> Provenance | None:
        """Return what a result was made from; None for a device of the caller, who may know more,
        and for samples that can be read once only.
        """
        if image.route is None or not isinstance(model, Model) or known.library is None:
            return None
        firmware = model.device.firmware
        if firmware is None or not isinstance(samples, Sequence):
            return None
        from hil.verify.provenance import provenance

        return provenance(
            model.device,
            firmware,
            known.library,
            model.module,
            samples,
            runner=image.route.label,
            options={} if image.compiled_with is None else image.compiled_with.chosen,
            command=self.command or self._call(),
        )

    def _call(self) -> str:
        from hil.verify.provenance import call_text

        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return f"{call_text(type(self), given)}.run()"


def reference_for(
    known: ImageModel,
    reference: str | Oracle | None,
    source: str | Path | None,
    allow_fallback: bool | None,
    otherwise: str,
) -> Oracle:
    """Return the reference of a model; ``otherwise`` says what to do where none is known."""
    from hil.verify.comparison import Oracle
    from hil.verify.oracle import reference_of

    if isinstance(reference, Oracle):
        return reference
    if known.module is None:
        raise InputError(
            f"no reference is known for the model {known.name!r} of another kind",
            "give an Oracle as reference",
        )
    if known.library is None:
        raise InputError(
            f"the library of the model {known.name!r} is not known here, so no reference can run",
            otherwise,
        )
    return reference_of(
        known.library, known.module, reference, source=source, allow_fallback=allow_fallback
    )


def warn_of_random_inputs(run: Run, given: str, samples: Any) -> None:
    """Warn that inputs are quantized, and are random: they have their types already.

    ``samples`` is the value of the option ``given``: a number of samples or None if they are
    random.
    """
    if samples is None or isinstance(samples, Integral):
        # Not at the top: a build takes no samples.
        from hil.verify.samples import no_quantization

        run.warn(no_quantization(run.option("quantize"), run.option(given)))


def warn_unused(run: Run, option: str, given: object, why: str) -> None:
    """Warn of an ``option`` that is ``given`` and has no effect, for the reason ``why``."""
    if given:
        run.warn(f"{run.option(option)} has no effect: {why}")


def require_one(image: Image, run: Run, given: Mapping[str, Any], remedy: str) -> None:
    """Raise :class:`InputError` for the first of the options ``given`` that is for one model, if
    the image has several.
    """
    count = len(image.models)
    option = next((name for name, value in given.items() if value is not None), None)
    if count > 1 and option is not None:
        raise InputError(
            f"{run.option(option)} is for one model, and the image has {count}", remedy
        )
