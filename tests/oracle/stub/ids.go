//go:build !before1_34 && !since1_35

package main

import (
	"encoding/json"
	"slices"
)

// idList is a list of device ids, or "*" for all.
type idList struct {
	all bool
	ids []string
}

func (l *idList) UnmarshalJSON(raw []byte) error {
	if string(raw) == `"*"` {
		l.all = true
		return nil
	}
	return json.Unmarshal(raw, &l.ids)
}

func (l idList) has(id string) bool { return l.all || slices.Contains(l.ids, id) }
