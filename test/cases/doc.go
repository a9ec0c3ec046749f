// Package cases holds accidents and field cases, each a test on real etcd
// whose assertion is the outcome that docs/field-cases.md calls right. Build
// tag cases: what runs before every landing; tag sweep: the same at full length.
package cases
