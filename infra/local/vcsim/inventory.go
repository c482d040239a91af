package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	apiVersion   = "8.0.3.0" // the simulator's own default is 6.5, whose content lacks parts
	templateName = "ubuntu-24.04"
	oddDatastore = "we ird (1)" // needs escaping nearly everywhere
	podDatastore = "PodDS_0"
)

// buildModel makes the inventory: DC0, and DC1 with the same names in it, so
// that whoever looks a name up without its datacenter finds two.
func buildModel() (*simulator.Model, error) {
	model := simulator.VPX()
	model.ServiceContent.About.ApiVersion = apiVersion
	model.ServiceContent.About.Version = "8.0.3"
	model.Datacenter, model.Host, model.Cluster, model.ClusterHost = 2, 1, 1, 2
	model.Pool, model.Pod, model.Portgroup, model.Machine = 2, 1, 1, 0
	if err := model.Create(); err != nil {
		return nil, err
	}
	// Without it a delayed task locks its object, and every read of that blocks.
	simulator.TaskDelay.MethodDelay = map[string]int{"LockHandoff": 0}
	client, err := vim25.NewClient(context.Background(), model.Service)
	if err != nil {
		return nil, err
	}
	b := &builder{ctx: context.Background(), model: model, client: client}
	if err := b.renameSecond(); err != nil {
		return nil, fmt.Errorf("renaming DC1: %w", err)
	}
	for _, dc := range []string{"DC0", "DC1"} {
		if err := b.fill(dc); err != nil {
			return nil, fmt.Errorf("filling %s: %w", dc, err)
		}
	}
	return model, nil
}

// builder adds to the inventory through an in-process client.
type builder struct {
	ctx    context.Context
	model  *simulator.Model
	client *vim25.Client
}

// renameSecond gives what the model named DC1_… the names it has in DC0. It goes
// past Rename_Task, which the simulator lacks for some kinds.
func (b *builder) renameSecond() error {
	also := map[string]string{ // where else the name stands
		"HostSystem":                  "summary.config.name",
		"DistributedVirtualPortgroup": "config.name",
	}
	ctx := b.model.Service.Context
	for _, kind := range []string{
		"ClusterComputeResource", "ComputeResource", "HostSystem", "ResourcePool",
		"DistributedVirtualPortgroup", "StoragePod",
	} {
		for _, entity := range b.model.Map().All(kind) {
			rest, found := strings.CutPrefix(nameOf(entity), "DC1_")
			if !found {
				continue
			}
			changes := []types.PropertyChange{{Name: "name", Val: "DC0_" + rest}}
			if path, found := also[kind]; found {
				changes = append(changes, types.PropertyChange{Name: path, Val: "DC0_" + rest})
			}
			b.model.Map().Update(ctx, entity, changes)
		}
	}
	return b.splitSwitches()
}

// splitSwitches gives each switch a uuid of its own: the simulator derives it
// from the name, which both have in common.
func (b *builder) splitSwitches() error {
	for _, entity := range b.model.Map().All("DistributedVirtualSwitch") {
		dvs, ok := entity.(*simulator.DistributedVirtualSwitch)
		if !ok {
			return fmt.Errorf("%s is a %T", entity.Reference(), entity)
		}
		dvs.Uuid = uuid.NewString()
		dvs.Summary.Uuid = dvs.Uuid
		dvs.Config.GetDVSConfigInfo().Uuid = dvs.Uuid
	}
	return nil
}

// fill adds to one datacenter what the model does not make.
func (b *builder) fill(dc string) error {
	finder := find.NewFinder(b.client)
	center, err := finder.Datacenter(b.ctx, dc)
	if err != nil {
		return err
	}
	finder.SetDatacenter(center)
	folders, err := center.Folders(b.ctx)
	if err != nil {
		return err
	}
	if _, err = b.makeFolders(folders.VmFolder, "demo", "machines", "a", "b"); err != nil {
		return err
	}
	templates, err := b.makeFolders(folders.VmFolder, "templates")
	if err != nil {
		return err
	}
	if err = b.addDatastores(finder, dc, folders.DatastoreFolder); err != nil {
		return err
	}
	return b.addTemplate(finder, templates)
}

func (b *builder) makeFolders(parent *object.Folder, names ...string) (*object.Folder, error) {
	for _, name := range names {
		child, err := parent.CreateFolder(b.ctx, name)
		if err != nil {
			return nil, err
		}
		parent = child
	}
	return parent, nil
}

// addDatastores adds the oddly named one, and one inside the storage pod.
func (b *builder) addDatastores(finder *find.Finder, dc string, folder *object.Folder) error {
	hosts, err := finder.HostSystemList(b.ctx, "*/*")
	if err != nil {
		return err
	}
	if _, err = b.addDatastore(hosts, dc, oddDatastore); err != nil {
		return err
	}
	store, err := b.addDatastore(hosts, dc, podDatastore)
	if err != nil {
		return err
	}
	children, err := folder.Children(b.ctx)
	if err != nil {
		return err
	}
	for _, child := range children {
		pod, ok := child.(*object.StoragePod)
		if !ok {
			continue
		}
		task, err := pod.MoveInto(b.ctx, []types.ManagedObjectReference{store.Reference()})
		if err != nil {
			return err
		}
		return task.Wait(b.ctx)
	}
	return fmt.Errorf("no storage pod among %d children", len(children))
}

// addDatastore makes a datastore of a folder and mounts it on every host.
func (b *builder) addDatastore(hosts []*object.HostSystem, dc, name string) (*object.Datastore, error) {
	dir, err := os.MkdirTemp("", dc+"-")
	if err != nil {
		return nil, err
	}
	var store *object.Datastore
	for _, host := range hosts {
		system, err := host.ConfigManager().DatastoreSystem(b.ctx)
		if err != nil {
			return nil, err
		}
		mounted, err := system.CreateLocalDatastore(b.ctx, name, dir)
		if err != nil {
			return nil, err
		}
		if store == nil { // the simulator answers a usable reference only once
			store = mounted
		}
	}
	return store, nil
}

// addTemplate makes the template that demonstrations and tests clone.
func (b *builder) addTemplate(finder *find.Finder, folder *object.Folder) error {
	spec, err := b.machineSpec(finder, templateName)
	if err != nil {
		return err
	}
	spec.GuestId = string(types.VirtualMachineGuestOsIdentifierUbuntu64Guest)
	spec.NumCPUs, spec.MemoryMB = 2, 2048
	pool, err := finder.ResourcePool(b.ctx, "DC0_C0/Resources")
	if err != nil {
		return err
	}
	task, err := folder.CreateVM(b.ctx, *spec, pool, nil)
	if err != nil {
		return err
	}
	result, err := task.WaitForResult(b.ctx)
	if err != nil {
		return err
	}
	ref, ok := result.Result.(types.ManagedObjectReference)
	if !ok {
		return fmt.Errorf("CreateVM_Task answered %T", result.Result)
	}
	return object.NewVirtualMachine(b.client, ref).MarkAsTemplate(b.ctx)
}

// machineSpec describes a machine with one 10 GiB disk and one card on VM Network.
func (b *builder) machineSpec(finder *find.Finder, name string) (*types.VirtualMachineConfigSpec, error) {
	network, err := finder.Network(b.ctx, "VM Network")
	if err != nil {
		return nil, err
	}
	backing, err := network.EthernetCardBackingInfo(b.ctx)
	if err != nil {
		return nil, err
	}
	var devices object.VirtualDeviceList
	scsi, err := devices.CreateSCSIController("pvscsi")
	if err != nil {
		return nil, err
	}
	card, err := devices.CreateEthernetCard("vmxnet3", backing)
	if err != nil {
		return nil, err
	}
	devices = append(devices, scsi)
	controller, ok := scsi.(types.BaseVirtualController)
	if !ok {
		return nil, fmt.Errorf("%T is no controller", scsi)
	}
	disk := devices.CreateDisk(controller, types.ManagedObjectReference{}, "")
	disk.CapacityInKB = 10 << 20
	devices = append(devices, disk, card)
	changes, err := devices.ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	return &types.VirtualMachineConfigSpec{
		Name:         name,
		Files:        &types.VirtualMachineFileInfo{VmPathName: "[LocalDS_0]"},
		DeviceChange: changes,
	}, err
}

// nameOf is the entity's name, or "" for an object that has none.
func nameOf(obj mo.Reference) string {
	switch x := obj.(type) {
	case *simulator.DistributedVirtualPortgroup:
		return x.Name
	case *simulator.DistributedVirtualSwitch:
		return x.Name
	case mo.Entity:
		return x.Entity().Name
	}
	return ""
}
