package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vmdk"
)

// The simulator derives a disk's uuid from its path, so that a move changes it
// and setting it does nothing. Here it stands in the descriptor, as ddb.uuid,
// where the product has it: it moves with the file. A disk that grows on its
// machine grows in its descriptor, and a search that is to tell a disk's size
// finds it there.

const ddbUUID = "uuid"

// keepDiskUUIDs teaches the simulator about uuids in descriptors.
func keepDiskUUIDs(model *simulator.Model, tasks *tasks) {
	d := &diskUUIDs{}
	model.Map().Put(d)
	model.Map().Handler = func(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		switch request := method.Body.(type) {
		case *types.QueryVirtualDiskUuid, *types.SetVirtualDiskUuid:
			method.This = d.Reference() // a handler given back would lose to the session's
		case *types.ReconfigVM_Task:
			d.prepare(ctx, request.This, request.Spec.DeviceChange)
		case *types.CreateVM_Task:
			d.prepare(ctx, request.This, request.Config.DeviceChange)
		case *types.CloneVM_Task:
			if request.Spec.Config != nil {
				d.prepare(ctx, request.Folder, request.Spec.Config.DeviceChange)
			}
		case *types.CopyVirtualDisk_Task:
			tasks.expect(call{method: method.Name, this: method.This}, d.afterCopy(ctx, request))
		}
		return nil, nil
	}
	stamp := func(task *simulator.Task, result types.AnyType) {
		ref, ok := result.(types.ManagedObjectReference)
		if !ok {
			ref = *task.Info.Entity
		}
		d.stamp(model.Service.Context, ref)
	}
	for _, method := range []string{"CloneVM_Task", "CreateVM_Task", "ReconfigVM_Task"} {
		tasks.onFinish(method, stamp)
	}
	tasks.onFinish("SearchDatastore_Task", func(_ *simulator.Task, result types.AnyType) {
		if found, ok := result.(types.HostDatastoreBrowserSearchResults); ok {
			d.tellCapacities(model.Service.Context, found)
		}
	})
}

// diskUUIDs answers for the VirtualDiskManager what is about uuids.
// It embeds a managed object: searches of the registry expect one in each entry.
type diskUUIDs struct {
	mo.VirtualDiskManager
	mu sync.Mutex // a descriptor is read, changed and written back
}

// Reference makes it an object of the registry; nothing else has this name.
func (d *diskUUIDs) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "DiskUUIDs", Value: "DiskUUIDs"}
}

// QueryVirtualDiskUuid answers in the product's form, pairs with one dash.
func (d *diskUUIDs) QueryVirtualDiskUuid(ctx *simulator.Context, req *types.QueryVirtualDiskUuid) soap.HasFault {
	body := new(methods.QueryVirtualDiskUuidBody)
	id, fault := d.read(ctx, req.Datacenter, req.Name)
	if fault != nil {
		body.Fault_ = simulator.Fault("cannot read "+req.Name, fault)
		return body
	}
	body.Res = &types.QueryVirtualDiskUuidResponse{Returnval: inPairs(id)}
	return body
}

// SetVirtualDiskUuid writes the uuid into the descriptor.
func (d *diskUUIDs) SetVirtualDiskUuid(ctx *simulator.Context, req *types.SetVirtualDiskUuid) soap.HasFault {
	body := new(methods.SetVirtualDiskUuidBody)
	id, err := uuid.Parse(strings.NewReplacer(" ", "", "-", "").Replace(req.Uuid))
	if err != nil {
		body.Fault_ = simulator.Fault(err.Error(), &types.InvalidArgument{InvalidProperty: "uuid"})
		return body
	}
	if fault := d.write(ctx, req.Datacenter, req.Name, id); fault != nil {
		body.Fault_ = simulator.Fault("cannot write "+req.Name, fault)
		return body
	}
	body.Res = new(types.SetVirtualDiskUuidResponse)
	return body
}

// read gives the uuid of a disk; a disk that has none yet gets one.
func (d *diskUUIDs) read(
	ctx *simulator.Context, dc *types.ManagedObjectReference, name string,
) (uuid.UUID, types.BaseMethodFault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	descriptor, file, fault := ctx.Map.FileManager().DiskDescriptor(ctx, dc, name)
	if fault != nil {
		return uuid.Nil, fault
	}
	if id, err := uuid.Parse(descriptor.DDB[ddbUUID]); err == nil {
		return id, nil
	}
	id := uuid.New()
	descriptor.DDB[ddbUUID] = id.String()
	return id, ctx.Map.FileManager().SaveDiskDescriptor(ctx, descriptor, file)
}

func (d *diskUUIDs) write(
	ctx *simulator.Context, dc *types.ManagedObjectReference, name string, id uuid.UUID,
) types.BaseMethodFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	descriptor, file, fault := ctx.Map.FileManager().DiskDescriptor(ctx, dc, name)
	if fault != nil {
		return fault
	}
	descriptor.DDB[ddbUUID] = id.String()
	return ctx.Map.FileManager().SaveDiskDescriptor(ctx, descriptor, file)
}

// prepare gives each disk that is added the uuid of its file, or a fresh one,
// and a disk whose file exists the capacity that the file has. A disk that is
// edited keeps its uuid.
func (d *diskUUIDs) prepare(
	ctx *simulator.Context, at types.ManagedObjectReference, changes []types.BaseVirtualDeviceConfigSpec,
) {
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		backing := flatBacking(spec.Device)
		added := spec.Operation == types.VirtualDeviceConfigSpecOperationAdd
		if backing == nil || backing.Uuid != "" || spec.Operation == types.VirtualDeviceConfigSpecOperationRemove {
			continue
		}
		id := uuid.New()
		if spec.FileOperation == "" {
			dc := datacenterOf(ctx, at)
			known, fault := d.read(ctx, dc, backing.FileName)
			if fault != nil {
				continue // the simulator answers it
			}
			id = known
			if added {
				d.fillCapacity(ctx, dc, spec.Device.(*types.VirtualDisk), backing.FileName)
			}
		}
		backing.Uuid = id.String()
	}
}

func (d *diskUUIDs) fillCapacity(
	ctx *simulator.Context, dc *types.ManagedObjectReference, disk *types.VirtualDisk, name string,
) {
	d.mu.Lock()
	defer d.mu.Unlock()
	descriptor, _, fault := ctx.Map.FileManager().DiskDescriptor(ctx, dc, name)
	if fault == nil && disk.CapacityInKB == 0 {
		disk.CapacityInBytes = descriptor.Capacity()
		disk.CapacityInKB = disk.CapacityInBytes >> 10
	}
}

// tellCapacities gives each disk that a search has found its size. Only one
// that asks for files' types gets any.
func (d *diskUUIDs) tellCapacities(ctx *simulator.Context, found types.HostDatastoreBrowserSearchResults) {
	if found.Datastore == nil {
		return
	}
	dc := datacenterOf(ctx, *found.Datastore)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, file := range found.File {
		disk, ok := file.(*types.VmDiskFileInfo)
		if !ok {
			continue
		}
		name := strings.TrimSuffix(found.FolderPath, "/") + "/" + disk.Path
		if descriptor, _, fault := ctx.Map.FileManager().DiskDescriptor(ctx, dc, name); fault == nil {
			disk.CapacityKb = descriptor.Capacity() >> 10
		}
	}
}

// stamp writes the uuids of a machine's disks into descriptors without one, and
// what the disks have grown to.
func (d *diskUUIDs) stamp(ctx *simulator.Context, ref types.ManagedObjectReference) {
	machine, ok := ctx.Map.Get(ref).(*simulator.VirtualMachine)
	if !ok {
		return
	}
	dc := datacenterOf(ctx, ref)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, device := range machine.Config.Hardware.Device {
		backing := flatBacking(device)
		if backing == nil {
			continue
		}
		descriptor, file, fault := ctx.Map.FileManager().DiskDescriptor(ctx, dc, backing.FileName)
		if fault != nil {
			continue
		}
		size := device.(*types.VirtualDisk).CapacityInBytes
		if descriptor.DDB[ddbUUID] != "" && size <= descriptor.Capacity() {
			continue
		}
		if descriptor.DDB[ddbUUID] == "" {
			descriptor.DDB[ddbUUID] = backing.Uuid
		}
		if size > descriptor.Capacity() {
			descriptor.Extent[0].Size = size / vmdk.SectorSize
		}
		_ = ctx.Map.FileManager().SaveDiskDescriptor(ctx, descriptor, file)
	}
}

// afterCopy gives the copy a uuid of its own.
func (d *diskUUIDs) afterCopy(ctx *simulator.Context, req *types.CopyVirtualDisk_Task) func(execute) execute {
	return func(work execute) execute {
		return func(task *simulator.Task) (types.AnyType, types.BaseMethodFault) {
			result, fault := work(task)
			if fault == nil {
				fault = d.write(ctx, req.DestDatacenter, req.DestName, uuid.New())
			}
			return result, fault
		}
	}
}

func flatBacking(device types.BaseVirtualDevice) *types.VirtualDiskFlatVer2BackingInfo {
	disk, ok := device.(*types.VirtualDisk)
	if !ok {
		return nil
	}
	backing, _ := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	return backing
}

func datacenterOf(ctx *simulator.Context, ref types.ManagedObjectReference) *types.ManagedObjectReference {
	for ref.Type != "Datacenter" {
		entity, ok := ctx.Map.Get(ref).(mo.Entity)
		if !ok || entity.Entity().Parent == nil {
			return nil
		}
		ref = *entity.Entity().Parent
	}
	return &ref
}

// inPairs writes a uuid as "60 00 c2 9a 7d fb d1 5b-d5 b1 9d 8f 2b c1 b0 60".
func inPairs(id uuid.UUID) string {
	return fmt.Sprintf("% x-% x", id[:8], id[8:])
}
