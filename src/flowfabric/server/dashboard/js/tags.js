// Tags in the search field: `name=value`, or a JSON object where that would be read in another way.

// The tags that a search is for; null if it is for something else.
export function tagsOf(search) {
  if (search.trimStart().startsWith("{")) {
    try {
      return JSON.parse(search);
    } catch {
      // an id begins with a brace, too
    }
  }
  if (!search.includes("=")) return null;
  const [name, value] = search.split(/=(.*)/s);
  return name.trim() ? { [name.trim()]: value.trim() } : null;
}

// The search that finds executions with this tag.
export function tagSearch(name, value) {
  const plain = `${name}=${value}`;
  const found = tagsOf(plain);
  return found && found[name] === value ? plain : JSON.stringify({ [name]: value });
}
