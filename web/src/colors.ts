/**
 * Colours with a meaning, after Okabe and Ito: told apart with every kind of colour vision. Fills are light enough for dark
 * text in both themes, so that one set of labels serves both.
 */

import { computed, signal } from "@preact/signals";

/** Layers of the stack, by kinds of frames and events. */
export const LAYERS = {
  python: { title: "Python", fill: "#8cc4ee" },
  module: { title: "Module", fill: "#b7d8f0" },
  operator: { title: "Operator", fill: "#6fcfae" },
  backward: { title: "Backward", fill: "#3fb08b" },
  native: { title: "Native", fill: "#c9c2b4" },
  runtime: { title: "GPU API", fill: "#e9c46a" },
  kernel: { title: "Kernel", fill: "#f0925b" },
  copy: { title: "Copy", fill: "#e08bb8" },
  communication: { title: "Communication", fill: "#c48be0" },
  span: { title: "Span", fill: "#d7d7df" },
} as const;

export type Layer = keyof typeof LAYERS;

/** The layer of a kind of frame or event. */
export function layerOf(kind: string): Layer {
  if (kind.startsWith("python")) return "python";
  if (kind.startsWith("module")) return "module";
  if (kind.startsWith("backward")) return "backward";
  if (kind.startsWith("operator")) return "operator";
  if (/collective|communication/.test(kind)) return "communication";
  if (/memcpy|memset|copy/.test(kind)) return "copy";
  if (/kernel|gpu_work/.test(kind)) return "kernel";
  if (/runtime|driver|sync|launch|api/.test(kind)) return "runtime";
  if (/native|compiled/.test(kind)) return "native";
  return "span";
}

/** What findings are about: colour and sign of each area. */
const AREAS: Readonly<Record<string, { icon: string; fill: string }>> = {
  host: { icon: "◐", fill: "#e9c46a" },
  synchronization: { icon: "◔", fill: "#e8743b" },
  data: { icon: "⇥", fill: "#5b9bd5" },
  kernels: { icon: "▦", fill: "#f0925b" },
  copies: { icon: "⇄", fill: "#e08bb8" },
  communication: { icon: "⇅", fill: "#c48be0" },
  memory: { icon: "▤", fill: "#6fcfae" },
  measurement: { icon: "◎", fill: "#c9c2b4" },
};

export const area = (name: string) => AREAS[name] ?? { icon: "•", fill: "#e8743b" };

/** Causes of time on the critical path, and where overview's bar gets its colours. */
export const CAUSES: Readonly<Record<string, { title: string; fill: string }>> = {
  gpu_compute: { title: "GPU computes", fill: "#f0925b" },
  gpu_communication: { title: "GPU communicates", fill: "#c48be0" },
  gpu_copy: { title: "GPU copies", fill: "#e08bb8" },
  gpu_queue: { title: "GPU queue", fill: "#f7c59f" },
  launch_latency: { title: "Launches", fill: "#e9c46a" },
  host_operator: { title: "Operators on the CPU", fill: "#6fcfae" },
  host_runtime: { title: "GPU API calls", fill: "#d6b656" },
  host_python: { title: "Python", fill: "#8cc4ee" },
  host_data_loading: { title: "Data loading", fill: "#5b9bd5" },
  sync_return: { title: "Return from a wait", fill: "#b7d8f0" },
  thread_handover: { title: "Handover to a thread", fill: "#a9c5a0" },
  profiler: { title: "Profiler", fill: "#c9c2b4" },
  unknown: { title: "Unknown", fill: "#d7d7df" },
};

export const cause = (name: string) => CAUSES[name] ?? { title: name.replaceAll("_", " "), fill: "#d7d7df" };

const query = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : undefined;
const prefersDark = signal(query?.matches ?? false);
query?.addEventListener("change", (event) => (prefersDark.value = event.matches));

/** The theme that was chosen; none means that of the system. */
export const theme = signal<"" | "light" | "dark">("");
export const isDark = computed(() => (theme.value === "" ? prefersDark.value : theme.value === "dark"));

const asks = (feature: string) => typeof matchMedia === "function" && matchMedia(`(${feature})`).matches;

/** Ink and paper of canvases. */
export const canvas = computed(() => {
  const isMore = asks("prefers-contrast: more") || asks("forced-colors: active");
  if (isMore) {
    const [paper, ink] = isDark.value ? ["#000000", "#ffffff"] : ["#ffffff", "#000000"];
    return { paper, ink, quiet: ink, line: ink, label: "#000000", mark: ink };
  }
  return isDark.value
    ? { paper: "#15181d", ink: "#e8eaee", quiet: "#a4abb6", line: "#39404a", label: "#14171b", mark: "#ffffff" }
    : { paper: "#ffffff", ink: "#1b1f24", quiet: "#59626e", line: "#d5dae0", label: "#14171b", mark: "#0b0d10" };
});
