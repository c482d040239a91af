"""The functions as targets: functions-framework --source functions/main.py --target create_machine --host 127.0.0.1."""

from vsphere_functions.hosts.http_targets import target

create_machine = target("create_machine")
delete_machine = target("delete_machine")
initialize_machine = target("initialize_machine")
get_machine_status = target("get_machine_status")
list_machines = target("list_machines")
shut_down_machine = target("shut_down_machine")
get_volume_ids = target("get_volume_ids")
create_volume = target("create_volume")
get_volume = target("get_volume")
destroy_volume = target("destroy_volume")
list_volumes = target("list_volumes")
attach_volume = target("attach_volume")
detach_volume = target("detach_volume")
resize_volume = target("resize_volume")
copy_volume = target("copy_volume")
find_orphans = target("find_orphans")
cancel_request = target("cancel_request")
validate_machine = target("validate_machine")

router = target()
