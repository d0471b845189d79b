// The theme looks for a mode that a first-time reader has not chosen yet.
document.documentElement.dataset.mode ||= "auto";
document.documentElement.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";

// In a folder, pages may not fetch each other: search lists titles there, without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
