/** Sections with their defaults filled in. */
import type { Filled } from '../schema/annotations.js'

/** The section with all members that have a default in the schema. */
export function filled<Section extends object, Member extends keyof Section & string> (
  section: Section,
  ...members: Member[]
): Filled<Section, Member> {
  if (!has(section, members)) throw new Error(`the schema lacks a default for one of ${members.join(', ')}`)
  return section
}

function has<Section extends object, Member extends keyof Section> (
  section: Section,
  members: readonly Member[]
): section is Filled<Section, Member> {
  return members.every((member) => section[member] !== undefined)
}
