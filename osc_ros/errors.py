"""What can go wrong, named."""


class OscError(Exception):
    """Root of every error that osc_ros raises on purpose."""


class ModelError(OscError, ValueError):
    """A robot description that cannot be used: names the joint or link, and what is accepted."""


class InputError(OscError, ValueError):
    """A state, target or setting that cannot be used: says what, where, and what is accepted."""


class ModelWarning(UserWarning):
    """A robot description that is usable but physically suspect."""


class WorkerWarning(RuntimeWarning):
    """A process of a team has failed; the answer is right, and the team is replaced."""
