// Spark's UI stores in localStorage which parts of a page are collapsed. In a frame without an origin, access to localStorage
// throws an error, and its scripts would stop. This storage replaces it, and lasts as long as the page.
for (const name of ["localStorage", "sessionStorage"]) {
  const values = new Map();
  Object.defineProperty(window, name, {
    value: {
      getItem: (key) => (values.has(String(key)) ? values.get(String(key)) : null),
      setItem: (key, value) => void values.set(String(key), String(value)),
      removeItem: (key) => void values.delete(String(key)),
      clear: () => values.clear(),
      key: (index) => [...values.keys()][index] ?? null,
      get length() { return values.size; },
    },
  });
}
