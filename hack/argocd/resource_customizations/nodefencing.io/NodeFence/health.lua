local hs = { status = "Progressing", message = "Waiting for the operator to begin" }
local found = {}
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  found[condition.type] = condition
end
local succeeded, escalated = found.Succeeded, found.Escalated
if succeeded == nil then
  return hs
end
hs.message = succeeded.message
if succeeded.status == "True" or succeeded.reason == "SelfRecovered" then
  hs.status = "Healthy"
elseif succeeded.status == "False" then
  hs.status = "Degraded"
elseif escalated ~= nil and escalated.status == "True" then
  hs.status = "Degraded"
  hs.message = escalated.message
elseif succeeded.reason == "Held" or succeeded.reason == "AwaitingApproval" then
  hs.status = "Suspended"
end
return hs
