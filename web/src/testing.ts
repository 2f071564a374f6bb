/** What a browser has and tests of logic lack: an address, and a page without answers in it. */

import { vi } from "vitest";

vi.stubGlobal("location", { hash: "" });
vi.stubGlobal("document", { getElementById: () => null });
