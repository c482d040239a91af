"""Stop an earlier request, named by the source and id of its event.

Promises: what has not begun never begins, also when it arrives later than its cancel; what runs stops at its next step
or delivery, and what it has made and not finished is taken back where that can be done (create_machine,
create_volume). Its own result then says Canceled, once nothing is left; `lastKnownState` says how far anything else
had come. A result that is stored already stands: FailedPrecondition. So does one whose work was done before it heard of
the wish, where nothing can be taken back. NotFound for an id that another source has used. Canceling twice is canceling
once. Needs no session and no privileges. Source: a compare-and-set on the record of the operation.
"""

from vsphere_events.request import CancelRequestRequest, CancelRequestResult
from vsphere_functions.context import Context
from vsphere_functions.steps import Step, Steps


def cancel_request(request: CancelRequestRequest, ctx: Context) -> Steps[CancelRequestResult]:
    """Write the wish into the request's record; whoever works on the request sees to the rest."""
    state = ctx.requests.cancel(request.source, request.id)
    yield Step("cancel", "", f"asked the request to stop; it was {state}", 100)
    return CancelRequestResult.model_validate({"state": state})
