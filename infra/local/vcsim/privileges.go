package main

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// privileges answers whether a user has them; the simulator's own answer is
// always yes. It enforces nothing: calls are refused by fault rules.
type privileges struct {
	*simulator.AuthorizationManager

	mu     sync.Mutex
	denied map[string]bool
}

func newPrivileges(model *simulator.Model) *privileges {
	ref := *model.ServiceContent.AuthorizationManager
	p := &privileges{
		AuthorizationManager: model.Map().Get(ref).(*simulator.AuthorizationManager),
		denied:               map[string]bool{},
	}
	model.Map().Put(p)
	return p
}

// deny replaces the privileges that nobody has.
func (p *privileges) deny(ids []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denied = map[string]bool{}
	for _, id := range ids {
		p.denied[id] = true
	}
	return nil
}

// HasUserPrivilegeOnEntities tells of each entity which of the privileges it grants.
func (p *privileges) HasUserPrivilegeOnEntities(req *types.HasUserPrivilegeOnEntities) soap.HasFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	res := &types.HasUserPrivilegeOnEntitiesResponse{}
	for _, entity := range req.Entities {
		of := types.EntityPrivilege{Entity: entity}
		for _, id := range req.PrivId {
			granted := types.PrivilegeAvailability{PrivId: id, IsGranted: !p.denied[id]}
			of.PrivAvailability = append(of.PrivAvailability, granted)
		}
		res.Returnval = append(res.Returnval, of)
	}
	return &methods.HasUserPrivilegeOnEntitiesBody{Res: res}
}
