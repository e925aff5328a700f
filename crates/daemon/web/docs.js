// Shows openapi.json as a page.
"use strict";

function make(tag, attributes = {}, ...children) {
  const it = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, value);
  it.append(...children);
  return it;
}

// A schema in a word, with a link where it has a name.
function shape(schema) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return make("a", { href: `#${name}` }, name);
  }
  if (schema.enum) return schema.enum.map((it) => JSON.stringify(it)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const any = schema.oneOf || schema.anyOf;
  if (any) return make("span", {}, ...any.flatMap((it, at) => (at ? [" or ", shape(it)] : [shape(it)])));
  const types = [].concat(schema.type || "anything");
  if (types.includes("array")) {
    const item = schema.prefixItems ? schema.prefixItems.flatMap((it, at) => (at ? [", ", shape(it)] : [shape(it)])) : [shape(schema.items)];
    return make("span", {}, "[", ...item, schema.prefixItems ? "]" : ", …]");
  }
  if (types.includes("object") && schema.properties)
    return make("span", {}, "{", ...Object.entries(schema.properties).flatMap(([key, it], at) => [`${at ? ", " : ""}${key}: `, shape(it)]), "}");
  return types.join(" or ");
}

fetch("/openapi.json").then((answer) => answer.json()).then((api) => {
  document.getElementById("title").textContent = api.info.title;
  document.getElementById("about").textContent = api.info.description;
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, it] of Object.entries(methods)) {
      const box = make("section", {}, make("h2", {}, make("code", {}, `${method.toUpperCase()} ${path}`), make("span", { class: "quiet" }, it.summary)));
      const table = make("table", {}, make("caption", { class: "hidden" }, `${method.toUpperCase()} ${path}`));
      const row = (what, ...rest) => table.append(make("tr", {}, make("th", { scope: "row" }, make("code", {}, what)), ...rest.map((cell) => make("td", {}, cell))));
      for (const at of it.parameters || []) row(`?${at.name}`, at.description, shape(at.schema));
      const body = it.requestBody && it.requestBody.content["application/json"].schema;
      if (body) row("body", it.requestBody.description || "", shape(body));
      for (const [code, answer] of Object.entries(it.responses)) {
        const schema = answer.content && Object.values(answer.content)[0].schema;
        row(code, answer.description, shape(schema));
      }
      box.append(table);
      document.getElementById("routes").append(box);
    }
  }
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const table = make("table", {}, make("caption", { class: "hidden" }, name));
    for (const [key, it] of Object.entries(schema.properties || {})) {
      const needed = (schema.required || []).includes(key) ? "" : "optional";
      table.append(make("tr", {}, make("th", { scope: "row" }, make("code", {}, key)), make("td", {}, it.description || ""), make("td", {}, shape(it)), make("td", { class: "quiet" }, needed)));
    }
    const box = make("section", { id: name }, make("h2", {}, name, make("span", { class: "quiet" }, schema.description || "")));
    box.append(schema.properties ? table : shape(schema));
    document.getElementById("shapes").append(box);
  }
});
