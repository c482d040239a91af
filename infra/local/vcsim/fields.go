package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// keepFields teaches the simulator to refuse a value for an object that is gone:
// there, SetField panics and keeps its manager locked, so that each later call
// that needs the manager waits for ever.
func keepFields(model *simulator.Model) {
	f := &customFields{}
	model.Map().Put(f)
	next := model.Map().Handler
	model.Map().Handler = func(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		// Without a session the refusal has to name the object that was called.
		if method.Name == "SetField" && ctx.Session != nil {
			method.This = f.Reference()
		}
		return next(ctx, method)
	}
}

// customFields stands before the CustomFieldsManager.
type customFields struct{ mo.CustomFieldsManager }

// Reference makes it an object of the registry; nothing else has this name.
func (f *customFields) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "CustomFields", Value: "CustomFields"}
}

// SetField looks whether the object is there, and holds it until the value is set.
func (f *customFields) SetField(ctx *simulator.Context, req *types.SetField) soap.HasFault {
	manager := ctx.Map.CustomFieldsManager()
	var body soap.HasFault
	ctx.WithLock(manager, func() {
		ctx.WithLock(req.Entity, func() {
			if _, found := ctx.Map.Get(req.Entity).(mo.Entity); found {
				body = manager.SetField(ctx, req)
				return
			}
			gone := &types.ManagedObjectNotFound{Obj: req.Entity}
			body = &methods.SetFieldBody{Fault_: simulator.Fault("the object is gone", gone)}
		})
	})
	return body
}
