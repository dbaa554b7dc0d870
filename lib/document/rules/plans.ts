/** Checks of plans beyond their schema: distinct tiers, and consistent limits. */
import type { Plans } from '../../schema/plans.js'
import { builtInPlans, createPlans, unlimited } from '../../plans/plans.js'
import { pointerTo, type FaultList } from '../../schema/faults.js'

const maxTiers = 30 // as many as the refusal of an unknown one names

export function checkPlans (changes: Plans, faults: FaultList): void {
  const plans = createPlans(changes)
  if (plans.tiers.length > maxTiers) {
    faults.add('/plans', `there are ${plans.tiers.length} tiers including the built-in ones: expected at most ${maxTiers}`)
  }
  const spellings = new Map(builtInPlans.tiers.map((tier) => [tier.toLowerCase(), tier]))
  for (const [tier, { limits }] of Object.entries(changes)) {
    const at = pointerTo('/plans', tier)
    const other = spellings.get(tier.toLowerCase()) ?? tier
    spellings.set(tier.toLowerCase(), other)
    if (other !== tier) faults.add(at, 'differs from another tier only in upper and lower case', other)
    const { maxFileSizeMB, maxStorageMB } = plans.of(tier).limits.fileStorage
    if (limits?.fileStorage?.maxFileSizeMB !== undefined && maxStorageMB !== unlimited && maxFileSizeMB > maxStorageMB) {
      faults.add(
        `${at}/limits/fileStorage/maxFileSizeMB`,
        `expected at most the plan's \`maxStorageMB\`, ${maxStorageMB}: a larger file would never fit`
      )
    }
  }
}
