// Light, dark, or as the system is; kept for the next visit.

const KEY = "flowfabric.theme";
export const THEMES = ["system", "light", "dark"];

export const theme = () => localStorage.getItem(KEY) ?? "system";

export function setTheme(name) {
  localStorage.setItem(KEY, name);
  apply();
}

function apply() {
  document.documentElement.dataset.theme = theme();
}

apply();
