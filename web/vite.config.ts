import { viteSingleFile } from "vite-plugin-singlefile";
import { defineConfig } from "vitest/config";

// One HTML file holds everything: the server, a report and an editor carry the same one.
export default defineConfig({
  plugins: [viteSingleFile()],
  build: { target: "es2022", emptyOutDir: false, reportCompressedSize: false },
  test: {
    projects: [
      { extends: true, test: { name: "logic", include: ["src/**/*.test.ts"], environment: "node", setupFiles: ["src/testing.ts"] } },
      {
        extends: true,
        // What passes at the second try only is listed at the end of `./dev test`.
        test: { name: "pages", include: ["tests/**/*.test.ts"], environment: "node", testTimeout: 60_000, hookTimeout: 120_000, maxWorkers: 2, retry: 1 },
      },
    ],
  },
});
