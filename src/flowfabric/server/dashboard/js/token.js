// The token of this tab: asked for when the server wants one, forgotten when the tab is closed.

import { ask } from "./dialogs.js";

const KEY = "flowfabric.token";
let asking = null;

export const token = () => sessionStorage.getItem(KEY);
export const forget = () => sessionStorage.removeItem(KEY);

// One dialog, however many calls were refused.
export function askForToken(problem) {
  asking ??= ask({
    title: "This server asks for a token",
    text: `${problem} An operator makes one with: flowfabric token new <name> --scope read --tokens <file>`,
    fields: [{ name: "token", label: "Token", type: "password", required: true }],
    action: "Sign in",
  }).then((given) => {
    asking = null;
    if (given) sessionStorage.setItem(KEY, given.token.trim());
    return given !== null;
  });
  return asking;
}
