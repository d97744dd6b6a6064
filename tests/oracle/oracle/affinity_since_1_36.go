//go:build since1_36

package main

// Name is the topology manager's scope.
func (s *affinityStore) Name() string { return s.manager.Name() }
