// Elements from plain calls, and `morph`, which updates the page with as few changes as possible: focus, selection,
// scroll position and typed text stay.

const SVG = "http://www.w3.org/2000/svg";
const handlers = new WeakMap(); // element -> {kind: handler}

export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else if (name === "checked") element.checked = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  return element;
}

function listen(element, kind, handler) {
  if (!handlers.has(element)) handlers.set(element, {});
  const known = handlers.get(element);
  if (!(kind in known)) element.addEventListener(kind, dispatch);
  known[kind] = handler;
}

function dispatch(event) {
  return handlers.get(event.currentTarget)?.[event.type]?.(event);
}

// Show `children` in `parent`. An element with `data-keep` manages its own children.
export function show(parent, ...children) {
  const fresh = parent.cloneNode(false);
  fresh.append(...children.flat(Infinity).filter(Boolean));
  morphChildren(parent, fresh);
}

function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  morphAttributes(old, fresh);
  for (const [kind, handler] of Object.entries(handlers.get(fresh) ?? {})) listen(old, kind, handler);
  if (old.checked !== fresh.checked) old.checked = fresh.checked;
  if (!old.hasAttribute("data-keep")) morphChildren(old, fresh);
}

function morphAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const isUsers = name === "open" && old.tagName === "DETAILS"; // the user opened it, the user closes it
    if (!fresh.hasAttribute(name) && !isUsers) old.removeAttribute(name);
  }
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = keyOf(wanted) ? keyed.get(keyOf(wanted)) : place;
    if (known && isSame(known, wanted)) {
      if (known !== place) old.insertBefore(known, place);
      else place = place.nextSibling;
      morph(known, wanted);
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

const keyOf = (node) => node.dataset?.key;
const isSame = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
