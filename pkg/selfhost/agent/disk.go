package agent

import "fmt"

// enoughDisk refuses a join for which the data directory's filesystem has not
// the room that the driver reckoned: it looked a moment ago, and from elsewhere.
// A filesystem that cannot be asked refuses nothing (pivot's guard says why).
func (a *Agent) enoughDisk(needs int64) error {
	d, err := statfs(a.id.DataDir)
	if err != nil || d.FreeBytes >= needs {
		return nil
	}
	return a.refusal("EnoughDisk", fmt.Sprintf("%d MiB free under %s", d.FreeBytes>>20, a.id.DataDir),
		fmt.Sprintf("%d MiB: the database and its log, and twice the database after that", (needs+1<<20-1)>>20), "I2")
}
