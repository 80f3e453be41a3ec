//! Every check with every way in which it can fail: the flat table that the rest of the crate refers to.
//!
//! Consequences say what a caller does: Cluster API where it is written so, otherwise Cluster API and
//! Windlass alike. Texts are sentences without a full stop; reports punctuate them.

crate::check::checks! {
    T1 Transport "TLS 1.2 or later works, the certificate verifies and covers the host" {
        Unreachable Error
            "no call gets through: Cluster API keeps the ExtensionConfig at Discovered=False and its manager does not finish warm-up"
            "make the address reachable from the management cluster, and check port, Service and network policies";
        HandshakeFailed Error
            "every call fails in the TLS handshake, so nothing of the extension is ever used"
            "serve TLS 1.2 or later with a modern cipher suite on this port, and no plain HTTP";
        CertificateRejected Error
            "callers trust nothing but the caBundle (or the system's roots without one) and refuse this certificate"
            "put the certificate of the issuer into caBundle, or let the inject-ca-from-secret annotation do it, and renew what has expired";
        NameNotCovered Error
            "callers check subject alternative names only, never the common name, and refuse this certificate"
            "issue the certificate with the host of the URL, or <service>.<namespace>.svc, as DNS name (an IP address as IP)";
    }
    T2 Transport "the certificate is not about to expire, and TLS 1.0 and 1.1 are refused" {
        CertificateExpiring Warning
            "when the certificate expires all calls fail at once, and blocking hooks stop every cluster"
            "renew it now and automate renewal, for example with cert-manager; reload it without a restart";
        OldTlsAccepted Warning
            "callers never use TLS below 1.2, so accepting it only widens the attack surface"
            "set the minimum version of the server to TLS 1.2";
    }
    T3 Transport "requests without Content-Type and Accept are accepted" {
        ContentTypeRequired Error
            "Cluster API sends neither header, so every real call is refused although curl and tests work"
            "decode the body as JSON whatever the Content-Type is, and do not look at Accept";
    }
    T4 Transport "HTTP/2 and HTTP/1.1 both work" {
        Http2Unusable Warning
            "callers fall back to HTTP/1.1 and open a connection per concurrent call, or fail if ALPN promised h2"
            "offer h2 by ALPN and serve it, next to http/1.1";
        Http1Unusable Warning
            "callers with HTTP/2 turned off (DISABLE_HTTP2), and most probes and proxies, cannot talk to the extension"
            "offer http/1.1 by ALPN and serve it, next to h2";
    }
    T5 Transport "compressed responses decode" {
        BadCompression Warning
            "callers offer gzip only and fail to decode the body, which counts as a failed call"
            "send gzip that is complete, and only if the request offers it, or do not compress";
    }
    T6 Transport "exact paths do not redirect, and a base path is served" {
        Redirected Error
            "callers follow no redirects, so that a redirect is a failed call"
            "answer on the exact path, without a trailing slash, on the host that was asked";
        BasePathNotServed Error
            "callers put the path of the URL before the path of the hook and get an answer that is not the hook's"
            "serve the hooks below the base path, strip it in front of the extension, or remove it from the ExtensionConfig";
    }
    T7 Transport "the timeout query parameter changes nothing" {
        TimeoutParameterBreaks Error
            "callers send ?timeout=<seconds>s with every call, so every real call fails although one without it works"
            "match the path only; use the parameter as a hint for a deadline or ignore it";
    }
    T8 Transport "an oversized request is refused, and the endpoint survives it" {
        OversizedAccepted Warning
            "any client that can reach the port can make the extension hold any amount of memory"
            "stop reading after 20 MiB and answer 200 with status Failure";
        DeadAfterOversized Warning
            "one large request takes the extension down, and with it every cluster that waits for its hooks"
            "bound what is read of a body instead of buffering it whole";
    }
    T9 Transport "odd bodies are tolerated: unknown fields accepted, malformed ones refused politely" {
        UnknownFieldsRefused Error
            "the next version of Cluster API adds fields to requests, and every call of it fails"
            "decode leniently: ignore fields that are not known";
        MalformedNotAFailure Warning
            "a broken request looks like a broken extension: the message never reaches the user, and failurePolicy Ignore hides it"
            "answer 200 with status Failure and a message that says what could not be read";
        DeadAfterMalformed Warning
            "one malformed request takes the extension down for all clusters"
            "catch errors and panics per request, so that the process survives them";
    }
    T10 Transport "with client certificates configured, a call without one is refused" {
        AnonymousAccepted Info
            "the client certificate that callers present protects nothing: any client that reaches the port can call the hooks"
            "require and verify client certificates with the CA that issues those of the managers";
    }
    T11 Transport "paths that are not served answer 404" {
        UnknownPathAnswered Warning
            "a typo in the path of an ExtensionConfig or a removed handler looks like an empty success"
            "answer 404 for every path that is neither discovery nor a registered handler";
    }

    D1 Discovery "discovery answers 200 with status Success" {
        DiscoveryFailed Error
            "the ExtensionConfig becomes Discovered=False, none of its handlers is registered, and warm-up of the manager does not finish"
            "answer POST <prefix>/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery with 200 and {\"status\":\"Success\",\"handlers\":[...]}";
        NoHandlers Info
            "the extension is registered and never called"
            "register at least one handler before the server starts";
    }
    D2 Discovery "handler names are RFC 1123 labels, unique across all hooks" {
        BadHandlerName Error
            "one invalid name makes discovery of the whole extension fail"
            "use at most 63 lower-case letters, digits and '-', with a letter or digit at both ends";
        HandlerNameRepeated Error
            "a name that is used twice, even for two hooks, makes discovery of the whole extension fail"
            "give every handler its own name, for example by putting the name of the hook into it";
    }
    D3 Discovery "timeouts are between 0 and 30 seconds" {
        TimeoutOutOfRange Error
            "a timeout outside 0 to 30 seconds makes discovery of the whole extension fail"
            "announce 1 to 30 seconds, and do longer work in the background while answering retryAfterSeconds";
        TimeoutZero Warning
            "0 does not mean no timeout: callers replace it by 10 seconds"
            "leave timeoutSeconds out, or say 10";
        TimeoutLong Info
            "calls are made one after another within one reconcile of a minute, so a few slow handlers use it up"
            "stay at 10 seconds or less and answer retryAfterSeconds for longer work";
    }
    D4 Discovery "failure policies are Fail, Ignore or absent" {
        BadFailurePolicy Error
            "an unknown failure policy makes discovery of the whole extension fail"
            "use Fail, Ignore or leave it out";
    }
    D5 Discovery "all hooks are known to the versions of Cluster API that shall call them" {
        UnknownHook Error
            "one unknown hook or hook version makes discovery of the whole extension fail"
            "spell the hook in CamelCase with apiVersion hooks.runtime.cluster.x-k8s.io/v1alpha1";
        HookTooNew Error
            "that version of Cluster API does not know the hook and refuses the whole extension, the other handlers included"
            "deploy the handler as a separate extension, or require the newer version of Cluster API";
        HookOfWindlassOnly Info
            "no version of Cluster API knows the hook: there the whole extension is refused, Windlass alone calls it"
            "deploy the handler as a separate extension if Cluster API shall call the other handlers";
    }
    D6 Discovery "every handler that is announced is served" {
        HandlerNotServed Error
            "the handler is registered and each of its calls fails"
            "serve it at /<group>/<version>/<hook in lower case>/<name in lower case>, below the base path if there is one";
    }
    D7 Discovery "repeated discovery announces the same handlers" {
        DiscoveryUnstable Warning
            "handlers come and go with every resync, depending on which answer or replica was seen"
            "fix the list of handlers at start, and run the same version on all replicas";
    }
    D8 Discovery "discovery is quick" {
        DiscoverySlow Warning
            "discovery has 10 seconds; a slow one fails under load and delays the start of the manager"
            "answer discovery from memory, without calls to anything else";
    }
    D9 Discovery "in-place hooks come in a working combination" {
        InPlaceHandlerRepeated Warning
            "Cluster API refuses to choose and fails every in-place decision; Windlass calls all of them in order of their names"
            "keep one handler per in-place hook";
        InPlaceIncomplete Warning
            "updates are promised that are never performed, or can be performed that are never promised: Machines hang or are replaced"
            "register UpdateMachine together with CanUpdateMachine and CanUpdateMachineSet";
    }
    D10 Discovery "patches come with the variables that they use" {
        VariablesNotDiscoverable Info
            "authors of a ClusterClass must copy the definitions of the variables by hand and keep them in step"
            "register DiscoverVariables next to GeneratePatches";
    }
    D11 Discovery "failure policy Ignore is not used where it loses the effect of a hook" {
        IgnoreLosesEffect Warning
            "while the extension is down a blocking hook lets everything pass, and a hook that answers data answers nothing"
            "use Fail for hooks that block or answer data";
    }
    D12 Discovery "names and number of handlers fit into the status of an ExtensionConfig" {
        TooManyHandlers Error
            "the status holds 512 handlers; with more the API server refuses it and no handler is registered"
            "split the extension into several, each with its own ExtensionConfig";
        RegisteredNameTooLong Error
            "the registered name <handler>.<ExtensionConfig> exceeds 512 characters, and the API server refuses the status"
            "shorten the name of the handler";
    }

    C1 Calls "answers have HTTP status 200, whether the hook succeeded or failed" {
        CallNot200 Error
            "anything but 200 is a failed call: the message is lost, and failurePolicy Ignore turns it into success"
            "answer 200 and say status Failure with a message when the hook cannot do its work";
        CallAborted Error
            "the connection broke without an answer, which counts as a failed call"
            "catch panics in handlers and answer status Failure instead";
    }
    C2 Calls "status is Success or Failure" {
        BadStatus Error
            "any other status, an empty one included, is an error of the call that no failure policy hides"
            "set status to Success or Failure in every answer";
        UndecodableAnswer Error
            "the answer cannot be decoded, which is a failed call"
            "answer one JSON object with the fields and types of the hook's response";
    }
    C3 Calls "retryAfterSeconds is an int32 of at least 0" {
        BadRetry Error
            "Cluster API takes a negative number for the shortest wait and calls again at once; other types do not decode at all"
            "answer whole seconds between 0 and 2147483647";
    }
    C4 Calls "hooks that cannot block do not answer retryAfterSeconds" {
        RetryIgnored Warning
            "the hook has no retryAfterSeconds: callers ignore it and go on"
            "use a hook that can block, or answer Failure to be called again after a back-off";
    }
    C5 Calls "failures say why" {
        FailureWithoutMessage Warning
            "the condition on the Cluster says that the hook failed, and nothing else"
            "set message to what went wrong and what the user can do about it";
    }
    C6 Calls "answers arrive within the announced timeout, and quickly" {
        TimedOut Error
            "the call is cut off at the timeout and counts as failed; it is repeated with back-off and never succeeds"
            "answer early with retryAfterSeconds and work in the background, or announce a longer timeout (30 seconds at most)";
        SlowCall Warning
            "handlers are called one after another in a reconcile that has a minute for everything"
            "answer in well under a second and work in the background";
        SlowMutation Warning
            "the hook is called on every reconcile of every cluster of the class, so 200 milliseconds are felt everywhere"
            "compute patches from the request alone, without calls to anything else";
    }
    C7 Calls "blocking answers say what they wait for" {
        BlockWithoutMessage Warning
            "users see that the hook blocks their cluster, but not why"
            "set message to what the extension waits for";
    }
    C8 Calls "retry times are neither a hot loop nor forgotten" {
        RetryTooShort Warning
            "every cluster calls the hook again every second or two for as long as it blocks"
            "ask for 5 to 60 seconds";
        RetryTooLong Warning
            "callers do not ask again before the time is over, so a cluster stays blocked long after the reason is gone"
            "ask for 10 minutes at most";
    }

    I1 Determinism "the same request gets the same answer, one at a time and concurrently" {
        StatusUnstable Warning
            "callers repeat requests at any time; an answer that flips makes clusters flap between going on and failing"
            "derive the answer from the request and durable state only, and make handlers safe for concurrent calls";
        MessageUnstable Warning
            "the message is written into conditions: each change is a write, and each write triggers a reconcile that calls again"
            "keep messages identical as long as the reason is the same";
        PayloadUnstable Warning
            "patches or plans that change without reason roll out machines without reason"
            "compute the answer from the request alone, with ordered collections";
    }
    I2 Determinism "order of items and their uids do not change patches" {
        DependsOnOrder Warning
            "Cluster API sends items in random order with fresh uids, so templates change at random and machines are replaced"
            "look at holderReference and the object, use uid only to label the answer";
    }
    I3 Determinism "patching a patched template changes nothing" {
        NotIdempotent Warning
            "every reconcile produces another change, and with it another rollout"
            "patch only what differs from what is wanted; compare before appending to lists";
    }
    I4 Determinism "messages contain nothing that changes from call to call" {
        VolatileMessage Warning
            "a message that changes with every call rewrites the condition, and every rewrite triggers the next call"
            "leave timestamps, durations, ids, ports and pointers out of messages; log them instead";
    }
    I5 Determinism "messages contain no secrets" {
        SecretInMessage Warning
            "messages are shown in conditions, events and logs, to every user who may read a Cluster"
            "strip credentials from errors before they become messages";
    }
    I6 Determinism "replicas and restarts give the same answer" {
        ReplicasDisagree Warning
            "which answer a cluster gets depends on the replica that the Service picks, or on the last restart"
            "keep state outside the process, or have none";
    }
    I7 Determinism "a hook that succeeded succeeds again" {
        FailsWhenRepeated Info
            "calls are delivered at least once: after a restart or a failed write the same call comes again and now stops the cluster"
            "treat work that is already done as success";
    }

    B1 Blocking "a handler that blocks answers at once with Success and retryAfterSeconds" {
        BlocksBySleeping Warning
            "a sleeping handler holds a worker of the manager and runs into the timeout, which is an error instead of a wait"
            "answer Success with retryAfterSeconds and a message, and check again in the next call";
        BlocksByFailing Warning
            "a failure is reported as an error and repeated with exponential back-off instead of after a time that you choose"
            "answer Success with retryAfterSeconds while waiting, and Failure only when something is wrong";
        DoesNotBlock Warning
            "told to block, the handler lets the cluster go on"
            "answer retryAfterSeconds above 0 for as long as the cluster must wait";
    }
    B2 Blocking "a handler that blocks can be asked again early" {
        EarlyCallSlow Warning
            "after a restart or a change of the Cluster the hook is called before the retry time is over, and then takes long or fails"
            "treat retryAfterSeconds as a hint: answer every call promptly from current state";
    }
    B3 Blocking "a handler that blocks lets go eventually" {
        NeverUnblocks Info
            "the cluster waits until an operator intervenes"
            "make sure that what the extension waits for happens, or give the poll more time";
    }

    P1 Patches "patches decode and belong to an item of the request" {
        PatchUndecodable Error
            "the patch cannot be read, and the topology of every cluster of the class fails to reconcile"
            "send patchType JSONPatch with a list, or JSONMergePatch with an object, as base64 of its JSON";
        UnknownUid Error
            "a uid that was not asked for fails the whole call"
            "answer only with uids of the request";
    }
    P2 Patches "patches apply to their template" {
        PatchDoesNotApply Error
            "the patch fails on the template, and the topology fails to reconcile"
            "add missing parents before their children, use add instead of replace for fields that may be absent, or send a merge patch";
    }
    P3 Patches "patches touch only spec, labels and annotations" {
        PatchIgnoredPart Warning
            "everything but spec, metadata.labels and metadata.annotations is dropped without a word"
            "leave the rest of the template alone";
    }
    P4 Patches "missing or ill-typed variables and foreign templates are handled" {
        FragileInput Warning
            "a typo in one Cluster, or a template of another provider, takes the handler down instead of being reported"
            "answer Failure with a message for variables that are wrong, and skip templates that are not known";
    }
    P5 Patches "variables have valid schemas, unique names and stay the same" {
        BadVariable Warning
            "the ClusterClass does not reconcile, and with it none of its Clusters"
            "give every variable a unique name, an explicit required, and a structural OpenAPI v3 schema with a type";
        VariablesChanged Warning
            "the definition changes between calls, so the ClusterClass flaps"
            "answer a fixed list of variables";
        VariablesBroken Warning
            "Clusters that were valid under the former definition are refused after the extension is upgraded"
            "keep variables and their types, add new ones as optional, or rename what changes its meaning";
    }
    P6 Patches "the extension's own validation accepts what it patched" {
        OwnPatchesRefused Error
            "no cluster of the class can ever reconcile: what GeneratePatches answers, ValidateTopology refuses"
            "validate what is produced, in the form in which it is produced";
    }

    U1 UpgradePlan "plans are valid for every pair of versions" {
        InvalidPlan Error
            "the plan is refused before anything is upgraded, and the cluster stays where it is"
            "list every control plane version up to the target, a minor at a time, and only worker versions that the control plane passes";
        NoPlanAtAll Info
            "every pair of versions that was tried is refused, so nothing was learned about plans"
            "test with versions that the extension knows (Kubernetes versions of the options)";
    }
    U2 UpgradePlan "a control plane at the target gets no steps" {
        StepsAtTarget Error
            "a control plane that has arrived and still gets steps makes the plan invalid, so workers never follow"
            "answer no controlPlaneUpgrades when from and to are the same";
    }
    U3 UpgradePlan "an upgrade that is needed gets a plan" {
        EmptyPlan Warning
            "success without steps is an invalid plan, and the reason why there is none is lost"
            "answer Failure with a message when there is no path between the versions";
    }

    N1 InPlace "patches apply to current and stay inside spec" {
        InPlacePatchInvalid Error
            "a patch that cannot be read or applied is an error of the whole rollout, which stops"
            "send base64 of a JSON patch or merge patch against the current object";
        InPlacePatchOutsideSpec Error
            "only spec of Machines and spec.template.spec of MachineSets and templates counts; the rest is dropped and the Machine is replaced"
            "patch spec (Machine level) or spec.template.spec (MachineSet and templates) only";
    }
    N2 InPlace "nothing to do gets no patch" {
        NeedlessPatch Warning
            "a patch where current equals desired suggests a change that was not asked for, and makes the objects differ"
            "compare current with desired and patch differences only";
    }
    N3 InPlace "a change that is not supported is left out, not failed" {
        UnsupportedFails Warning
            "Failure stops the rollout and is retried for ever; nothing falls back to replacing the Machine"
            "answer Success and leave out of the patches what the extension cannot change";
    }
    N4 InPlace "CanUpdateMachine and CanUpdateMachineSet agree" {
        InPlaceDisagree Warning
            "control planes and workers are treated differently for the same change: one is updated in place, the other replaced"
            "decide both hooks by the same code";
    }
    N5 InPlace "UpdateMachine can be called again at any time" {
        UpdateRestarts Warning
            "a repeated call after the update is done starts it again, so that the Machine is updated twice or never finishes"
            "remember what was done per Machine, durably, and answer Success with 0 for it";
        UpdateFailsWhenRepeated Warning
            "a repeated call during the update fails, and the Machine is reported as failed while it is being updated"
            "answer Success with retryAfterSeconds while the update runs";
    }
    N6 InPlace "patches do not touch status" {
        PatchTouchesStatus Warning
            "status is not part of the comparison: the change is dropped"
            "leave status out of patches: patch spec only";
    }
    N7 InPlace "ExternalUpdate says whether it accepts, why not, and the same when asked again" {
        AcceptedNotSaid Warning
            "an answer without a boolean accepted is a refusal, and the next external updater is asked, or the fallback begins"
            "always send accepted, true or false";
        RefusalWithoutReason Warning
            "users see that the update is refused, and not why the rollout stops or replaces Machines"
            "say in reason what of the request cannot be done";
        AcceptanceForgotten Warning
            "a request that comes again after a crash withdraws the acceptance while the extension works on the Machines"
            "remember per owner and desired state what was accepted, durably, and accept it again";
    }

    A1 Availability "at least two replicas are ready, and readiness can be asked" {
        TooFewReplicas Warning
            "every restart, drain or upgrade of its node stops all hooks, and with them all clusters"
            "run two replicas or more behind the Service, spread over nodes";
        ReadinessBroken Warning
            "the Service sends calls to replicas that are not ready, or to none"
            "answer 200 on the readiness endpoint as soon as, and only while, hooks can be answered";
    }
    A2 Availability "parallel calls are answered" {
        FailsUnderLoad Warning
            "all clusters call at the same time after a restart of the manager, and some of these calls fail"
            "handle requests concurrently, and do not limit connections below 50";
    }
    A3 Availability "the extension works while others are down" {
        DependsOnSiblings Warning
            "one extension that is down takes this one with it"
            "answer from own state; degrade instead of failing when something else is missing";
    }
    A4 Availability "a call that is under way finishes on shutdown" {
        ShutdownCutsCalls Warning
            "every rollout of the extension makes some calls fail"
            "on SIGTERM stop accepting, finish what is under way, then exit";
    }
    A5 Availability "a cold start takes less than a minute" {
        SlowColdStart Info
            "a manager gives extensions 60 seconds at start, then exits"
            "answer discovery before expensive initialisation is done";
    }

    L1 Lint "admission accepts the ExtensionConfig" {
        AdmissionRefuses Error
            "the API server refuses the object"
            "correct the field as the message says";
    }
    L2 Lint "caBundle is set, or injected" {
        NoCaBundle Warning
            "managers that do not discover themselves, such as that of KubeadmControlPlane, refuse an ExtensionConfig without caBundle and exit; others use the system's roots"
            "set caBundle, or the annotation runtime.cluster.x-k8s.io/inject-ca-from-secret: <namespace>/<name>";
    }
    L3 Lint "the namespace selector is explicit" {
        SelectorAbsent Warning
            "admission turns an absent selector into {}, which sends objects of every namespace to the extension; without admission it selects none"
            "write namespaceSelector: {} if all namespaces are meant, or select some";
    }
    L4 Lint "the namespace selector can match" {
        SelectorContradiction Warning
            "no namespace can match the selector, so the extension is never called, and calls by name are errors"
            "remove the requirement that contradicts the others";
        SelectorMatchesNone Warning
            "none of the namespaces in the file matches, so the extension is not called for objects in them"
            "label the namespaces, or select by kubernetes.io/metadata.name";
    }
    L5 Lint "the url has no user, query or fragment" {
        UrlForbiddenPart Error
            "Windlass refuses it; Cluster API accepts it and sends the user as basic authentication and mixes the query with its own"
            "leave only scheme, host, port and path";
    }
    L6 Lint "references of ClusterClasses resolve" {
        ReferenceUnresolved Error
            "the ClusterClass names a handler that is not registered, and its topology fails to reconcile"
            "use <handler>.<ExtensionConfig> as listed in status.handlers";
        ReferenceOfOtherHook Error
            "the handler exists but handles another hook, so that calling it by that name is an error"
            "name the handler of the hook that the field is for";
        ReferenceNotChecked Info
            "there are no discovered handlers in the file to compare the reference with"
            "add the ExtensionConfig as the API server returns it: kubectl get extensionconfig -o yaml";
    }
    L7 Lint "the selector matches the namespaces of ClusterClasses that refer to the extension" {
        ClassNamespaceNotSelected Error
            "DiscoverVariables is called for the namespace of the ClusterClass, which the selector excludes: an error, not a skip"
            "select that namespace as well as those of the Clusters";
    }
    L8 Lint "the Discovered condition is current" {
        DiscoveredStale Warning
            "handlers in the status belong to an older spec; managers that do not discover themselves refuse them"
            "wait for the next reconcile, or touch the object; then look at the message of the condition";
        NotDiscovered Warning
            "the last discovery failed; handlers in the status are those of an earlier one"
            "read the message of the condition, and run windlass extension test against the address";
    }
    L9 Lint "no two extensions handle in-place hooks of the same namespace" {
        InPlaceOverlap Warning
            "with two handlers of an in-place hook Cluster API fails every in-place decision in that namespace"
            "separate the extensions by namespaceSelector, or keep one";
    }
    L10 Lint "the file is YAML with Kubernetes objects" {
        NotYaml Error
            "kubectl cannot read the file"
            "correct the syntax at the position that is named";
        NotAnObject Error
            "the document has no apiVersion and kind, or a field of it has the wrong type, so the API server refuses it"
            "write the object as documented for runtime.cluster.x-k8s.io/v1beta2";
        OldApiVersion Warning
            "v1alpha1 is deprecated, and v1beta1 has never existed for this kind"
            "use apiVersion runtime.cluster.x-k8s.io/v1beta2";
    }
    L11 Lint "all fields are known" {
        UnknownField Warning
            "the API server drops fields that it does not know, so what was meant has no effect"
            "correct the spelling, or remove the field";
    }
    L12 Lint "caBundle contains certificates that are valid" {
        BundleWithoutCertificates Error
            "a bundle without a readable certificate is an error of every call"
            "base64-encode the PEM file of the CA once: base64 -w0 ca.crt";
        BundleExpired Error
            "nothing verifies against an expired certificate, so every call fails"
            "renew the CA and update the bundle";
        BundleExpiring Warning
            "when the certificate in the bundle expires, every call fails"
            "renew the CA in time; the injecting annotation keeps the bundle up to date";
        BundleNotCa Warning
            "a certificate that is neither a CA nor self-signed is a fragile anchor: it fails as soon as it is renewed"
            "put the certificate of the issuer into the bundle";
        BundleNoise Warning
            "blocks that are no certificates are ignored, and a private key in a bundle is public for all who read the object"
            "keep only CERTIFICATE blocks";
    }
    L13 Lint "the annotation that injects the caBundle names a Secret" {
        InjectAnnotationMalformed Error
            "reconciliation of the ExtensionConfig fails until it is corrected"
            "write <namespace>/<name> of a Secret that has the key ca.crt";
        InjectAnnotationShape Warning
            "the Secret cannot exist under that name, so that its lookup fails"
            "write the namespace and the name of the Secret, separated by one slash";
    }
    L14 Lint "other documents are left alone" {
        OtherDocument Info
            "the document is not an ExtensionConfig and was not checked"
            "nothing to do; use kubectl apply --dry-run=server to check it";
    }
}
