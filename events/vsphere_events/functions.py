"""The functions of the contract: name, models, and whether a call changes anything."""

from dataclasses import dataclass
from typing import Any

from vsphere_events import machine, request, volume
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.model import Model, Result


@dataclass(frozen=True, slots=True)
class Function:
    """A function's models; one that `changes` something is claimed and retried, others answer at once."""

    name: str
    request: type[Model]
    result: type[Result]
    changes: bool

    def parse(self, event: CloudEvent) -> Any:
        """Validate a request event's data: an instance of `request`; InvalidArgument with every violation."""
        if not isinstance(event.data, dict):
            kind = event.datacontenttype or "nothing"
            raise CallError(Code.INVALID_ARGUMENT, f"data should be a JSON object; it is {kind}")
        return self.request.parse(event.data)


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        Function("create_machine", machine.CreateMachineRequest, machine.CreateMachineResult, changes=True),
        Function("delete_machine", machine.DeleteMachineRequest, machine.DeleteMachineResult, changes=True),
        Function(
            "initialize_machine",
            machine.InitializeMachineRequest,
            machine.InitializeMachineResult,
            changes=True,
        ),
        Function(
            "get_machine_status",
            machine.GetMachineStatusRequest,
            machine.GetMachineStatusResult,
            changes=False,
        ),
        Function("list_machines", machine.ListMachinesRequest, machine.ListMachinesResult, changes=False),
        Function(
            "shut_down_machine", machine.ShutDownMachineRequest, machine.ShutDownMachineResult, changes=True
        ),
        Function("get_volume_ids", volume.GetVolumeIdsRequest, volume.GetVolumeIdsResult, changes=False),
        Function("create_volume", volume.CreateVolumeRequest, volume.CreateVolumeResult, changes=True),
        Function("get_volume", volume.GetVolumeRequest, volume.GetVolumeResult, changes=False),
        Function("destroy_volume", volume.DestroyVolumeRequest, volume.DestroyVolumeResult, changes=True),
        Function("list_volumes", volume.ListVolumesRequest, volume.ListVolumesResult, changes=False),
        Function("attach_volume", volume.AttachVolumeRequest, volume.AttachVolumeResult, changes=True),
        Function("detach_volume", volume.DetachVolumeRequest, volume.DetachVolumeResult, changes=True),
        Function("resize_volume", volume.ResizeVolumeRequest, volume.ResizeVolumeResult, changes=True),
        Function("copy_volume", volume.CopyVolumeRequest, volume.CopyVolumeResult, changes=True),
        Function("find_orphans", request.FindOrphansRequest, request.FindOrphansResult, changes=True),
        Function("cancel_request", request.CancelRequestRequest, request.CancelRequestResult, changes=True),
        Function(
            "validate_machine", machine.ValidateMachineRequest, machine.ValidateMachineResult, changes=False
        ),
    )
}
