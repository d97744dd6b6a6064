//go:build !before1_34 && !since1_35

package main

import "encoding/json"

// resetSettings are settings that start from a new process's, not from zero values.
type resetSettings settings

func (s *resetSettings) UnmarshalJSON(raw []byte) error {
	fresh := defaults()
	if err := json.Unmarshal(raw, &fresh); err != nil {
		return err
	}
	*s = resetSettings(fresh)
	return nil
}
