package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

const fleetWorkers = 32

// buildFleet makes n machines in /DC0/vm/fleet, powered off, in parallel: one
// after the other takes 35 ms each, most of it spent waiting for tasks.
func buildFleet(model *simulator.Model, n int, marks map[string]string) error {
	if n == 0 {
		return nil
	}
	ctx := context.Background()
	client, err := vim25.NewClient(ctx, model.Service)
	if err != nil {
		return err
	}
	b := &builder{ctx: ctx, model: model, client: client}
	f := &fleet{builder: b, finder: find.NewFinder(client), marks: marks}
	if err = f.prepare(); err != nil {
		return err
	}
	return f.create(n)
}

type fleet struct {
	*builder
	finder *find.Finder
	marks  map[string]string
	folder *object.Folder
	pool   *object.ResourcePool
	spec   types.VirtualMachineConfigSpec
}

func (f *fleet) prepare() error {
	center, err := f.finder.Datacenter(f.ctx, "DC0")
	if err != nil {
		return err
	}
	f.finder.SetDatacenter(center)
	folders, err := center.Folders(f.ctx)
	if err != nil {
		return err
	}
	if f.folder, err = f.makeFolders(folders.VmFolder, "fleet"); err != nil {
		return err
	}
	if f.pool, err = f.finder.ResourcePool(f.ctx, "DC0_C0/Resources"); err != nil {
		return err
	}
	spec, err := f.machineSpec(f.finder, "")
	if err != nil {
		return err
	}
	f.spec = *spec
	return nil
}

// marked gives a machine its marks; {name} and {uuid} in them are its own.
func (f *fleet) marked(name, id string) []types.BaseOptionValue {
	options := slices.Clone(f.spec.ExtraConfig)
	own := strings.NewReplacer("{name}", name, "{uuid}", id)
	for _, key := range slices.Sorted(maps.Keys(f.marks)) {
		options = append(options, &types.OptionValue{Key: key, Value: own.Replace(f.marks[key])})
	}
	return options
}

func (f *fleet) create(n int) error {
	numbers := make(chan int)
	failures := make([]error, fleetWorkers)
	var workers sync.WaitGroup
	for w := range fleetWorkers {
		workers.Go(func() {
			for number := range numbers {
				if err := f.createOne(number); err != nil && failures[w] == nil {
					failures[w] = err
				}
			}
		})
	}
	for number := 1; number <= n; number++ {
		numbers <- number
	}
	close(numbers)
	workers.Wait()
	return errors.Join(failures...)
}

func (f *fleet) createOne(number int) error {
	spec := f.spec // what it points to is copied by the in-process client
	spec.Name = fmt.Sprintf("fleet-%05d", number)
	spec.Uuid = uuid.NewString()
	spec.ExtraConfig = f.marked(spec.Name, spec.Uuid)
	task, err := f.folder.CreateVM(f.ctx, spec, f.pool, nil)
	if err != nil {
		return err
	}
	// A property collector per task would cost more than the machine does.
	running, ok := f.model.Map().Get(task.Reference()).(*simulator.Task)
	if !ok {
		return fmt.Errorf("%s is no task", task.Reference())
	}
	return waitFor(running)
}

func waitFor(task *simulator.Task) error {
	task.Wait()
	if fault := task.Info.Error; fault != nil {
		return fmt.Errorf("%s at %s: %s", task.Info.Name, task.Info.StartTime.Format(time.RFC3339), fault.LocalizedMessage)
	}
	return nil
}
