module spark-operator/tests/json-patch

go 1.24.0

require gopkg.in/evanphx/json-patch.v4 v4.12.0

require github.com/pkg/errors v0.9.1 // indirect
