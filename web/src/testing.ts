/** Parts of a browser that tests of logic lack: an address, and a page without answers in it. */

import { vi } from "vitest";

vi.stubGlobal("location", { hash: "" });
vi.stubGlobal("document", { getElementById: () => null });
