local hs = { status = "Progressing", message = "Waiting for the operator to assess it" }
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return hs
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    hs.message = condition.message
    if condition.status == "True" then
      hs.status = "Healthy"
    elseif condition.reason == "Paused" then
      hs.status = "Suspended"
    elseif condition.status == "False" then
      hs.status = "Degraded"
    end
  end
end
return hs
