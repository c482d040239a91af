package main

import (
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// execute is the work of a task.
type execute = func(*simulator.Task) (types.AnyType, types.BaseMethodFault)

// expected changes the work of the task that a call is about to start.
type expected struct {
	name string // as taskName gives it
	this types.ManagedObjectReference
	wrap func(execute) execute
}

// tasks is told of each task before its work begins, and may replace the work.
type tasks struct {
	model    *simulator.Model
	mu       sync.Mutex
	expected []expected

	finished map[string][]func(*simulator.Task, types.AnyType)
	// A search panics when a file goes away between its listing and its look at it.
	searching sync.RWMutex
	// A clone looks for its name among a folder's children without the folder's lock:
	// the simulator falls over when they change meanwhile.
	naming sync.Mutex
}

// renaming says whether a task looks at, or changes, a folder's children. That of
// a folder itself runs those of what is in it.
func renaming(name string, entity types.ManagedObjectReference) bool {
	switch name {
	case "clone", "rename":
		return true
	case "destroy":
		return entity.Type == "VirtualMachine"
	}
	return false
}

// vanishing are the tasks after which a file is not where it was. A destroy is none:
// it waits for tasks of its own that delete its files, which a search may keep waiting.
var vanishing = map[string]bool{
	"deletedatastorefile": true, "movedatastorefile": true,
	"deletevirtualdisk": true, "movevirtualdisk": true,
}

func newTasks(model *simulator.Model) *tasks {
	return &tasks{
		model: model,

		finished: map[string][]func(*simulator.Task, types.AnyType){},
	}
}

// taskName makes a method's name and its task's name the same: the task of
// CloneVM_Task is called CloneVm, that of PowerOnVM_Task PowerOn.
func taskName(name string) string {
	name = strings.TrimSuffix(strings.ToLower(name), "_task")
	switch name {
	case "createsnapshot":
		return "createsnapshotex"
	case "reverttocurrentsnapshot":
		return "revertsnapshot"
	case "searchdatastoresubfolders":
		return "searchdatastore"
	case "deletevstorageobject":
		return "deletedisk"
	}
	return strings.TrimSuffix(name, "vm")
}

// expect notes that the task of this call is to be changed. Tasks that the
// simulator starts by itself (a clone creates a machine) are left alone.
func (t *tasks) expect(c call, wrap func(execute) execute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected = append(t.expected, expected{taskName(c.method), c.this, wrap})
}

// onFinish has f called after each success of the tasks of a method.
func (t *tasks) onFinish(method string, f func(*simulator.Task, types.AnyType)) {
	t.finished[taskName(method)] = append(t.finished[taskName(method)], f)
}

// Reference makes tasks a registry handler; nothing else has this name.
func (t *tasks) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "TaskObserver", Value: "TaskObserver"}
}

// PutObject is called with a task before its work begins.
func (t *tasks) PutObject(_ *simulator.Context, object mo.Reference) {
	task, ok := object.(*simulator.Task)
	if !ok || task.Execute == nil || task.Info.Entity == nil {
		return
	}
	name := taskName(task.Info.Name)
	work := task.Execute
	if renaming(name, *task.Info.Entity) {
		work = within(&t.naming, work)
	}
	switch {
	case name == "searchdatastore":
		work = within(&t.searching, work)
	case vanishing[name]:
		work = within(t.searching.RLocker(), work)
	}
	if after := t.finished[name]; len(after) > 0 {
		work = thenCall(work, after)
	}
	if wrap := t.takeExpected(name, *task.Info.Entity); wrap != nil {
		work = wrap(work)
	}
	task.Execute = work
}

// UpdateObject is part of a registry handler.
func (t *tasks) UpdateObject(*simulator.Context, mo.Reference, []types.PropertyChange) {}

// RemoveObject is part of a registry handler.
func (t *tasks) RemoveObject(*simulator.Context, types.ManagedObjectReference) {}

func (t *tasks) takeExpected(name string, entity types.ManagedObjectReference) func(execute) execute {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range t.expected {
		// A search is called on a browser, and its task is the datastore's.
		if e.name == name && (e.this == entity || e.this.Type == "HostDatastoreBrowser") {
			t.expected = append(t.expected[:i], t.expected[i+1:]...)
			return e.wrap
		}
	}
	return nil
}

// fail replaces a task's work by the rule's fault.
func fail(r *rule, this types.ManagedObjectReference) func(execute) execute {
	return func(execute) execute {
		return func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
			time.Sleep(time.Duration(r.DelayMS) * time.Millisecond)
			fault, err := r.body(this)
			if err != nil {
				return nil, &types.SystemError{Reason: err.Error()}
			}
			return nil, fault
		}
	}
}

// within does a task's work under a lock.
func within(lock sync.Locker, work execute) execute {
	return func(task *simulator.Task) (types.AnyType, types.BaseMethodFault) {
		lock.Lock()
		defer lock.Unlock()
		return work(task)
	}
}

func thenCall(work execute, after []func(*simulator.Task, types.AnyType)) execute {
	return func(task *simulator.Task) (types.AnyType, types.BaseMethodFault) {
		result, fault := work(task)
		if fault == nil {
			for _, f := range after {
				f(task, result)
			}
		}
		return result, fault
	}
}
