package main

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// keepVApp teaches the simulator that a clone has its source's vApp properties:
// there, it has none, and no property could be set that the template has.
func keepVApp(model *simulator.Model, tasks *tasks) {
	tasks.onFinish("CloneVM_Task", func(task *simulator.Task, result types.AnyType) {
		ref, ok := result.(types.ManagedObjectReference)
		if !ok {
			return
		}
		source, isVM := model.Map().Get(*task.Info.Entity).(*simulator.VirtualMachine)
		clone, made := model.Map().Get(ref).(*simulator.VirtualMachine)
		if !isVM || !made || source.Config.VAppConfig == nil {
			return
		}
		info := source.Config.VAppConfig.GetVmConfigInfo()
		clone.Config.VAppConfig = &types.VmConfigInfo{
			Product:  slices.Clone(info.Product),
			Property: slices.Clone(info.Property),
		}
	})
}
