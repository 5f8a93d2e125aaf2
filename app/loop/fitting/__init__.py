"""Whether a checkpoint's state can be that of this program, told by its tree before one of its bytes is read.

Two ends: what is no state of any program (a list where names belong) is Damaged, and an older checkpoint is tried. What
another program may have written (other names, another kind of scheduler) is refused, because it may be this one that
is wrong. Neither says anything of values: a learning rate of a million is one.
"""

from app.loop.fitting.models import refuse_gradients, refuse_model
from app.loop.fitting.optimizers import refuse_optimizer, refuse_state
from app.loop.fitting.schedulers import refuse_scaler, refuse_scheduler
from app.loop.fitting.sense import refuse_senseless

__all__ = [
    "refuse_gradients",
    "refuse_model",
    "refuse_optimizer",
    "refuse_scaler",
    "refuse_scheduler",
    "refuse_senseless",
    "refuse_state",
]
