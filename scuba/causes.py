"""Why a connection failed, in the words of whoever knows best: the innermost cause."""

from typing import cast

from scuba.descriptors import too_many, used_up


def cause_of(error: BaseException) -> str:
    """Return the kind of an error and the text of its innermost cause that has one."""
    text = ""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, BaseExceptionGroup):
            inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
        else:
            text = too_many() if used_up(inner) else str(inner) or text
            inner = inner.__cause__ or inner.__context__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
